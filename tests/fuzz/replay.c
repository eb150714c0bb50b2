/* main() of a fuzz target in the ordinary variants: gives it every file of the folders and files
 * named, each in a block of exactly its size, so that a sanitizer sees the first byte read beyond
 * it. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t replayed;

static int replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    int ok = file && data && fread(data, 1, size, file) == size;
    if (ok) {
        LLVMFuzzerTestOneInput(data, size);
        replayed++;
    } else {
        fprintf(stderr, "cannot read %s\n", path);
    }
    free(data);
    if (file) fclose(file);
    return ok ? 0 : 1;
}

static int replay_folder(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder) {
        fprintf(stderr, "cannot open %s\n", path);
        return 1;
    }
    int failed = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char name[4096];
        int length = snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        struct stat info;
        if (length > 0 && (size_t)length < sizeof name && stat(name, &info) == 0 &&
            S_ISREG(info.st_mode))
            failed += replay_file(name, (size_t)info.st_size);
    }
    closedir(folder);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        struct stat info;
        if (stat(argv[i], &info) != 0) {
            fprintf(stderr, "no such file: %s\n", argv[i]);
            failed++;
        } else {
            failed += S_ISDIR(info.st_mode) ? replay_folder(argv[i])
                                            : replay_file(argv[i], (size_t)info.st_size);
        }
    }
    printf("%zu passed, %d failed\n", replayed, failed);
    return failed ? 1 : 0;
}
