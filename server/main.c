/* The program's entry. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/cli/cli.h"

/* Closed at start, descriptors 0 to 2 would be given to the first sockets and files, and a
 * complaint would land in them. Standard input and output are opened the wrong way round, so that
 * using them fails. */
static void reserve_descriptors(void)
{
    static const int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) continue;
        /* Lowest free number: those below are taken already. Without /dev any directory will do. */
        if (open("/dev/null", modes[fd]) < 0 && open("/", O_RDONLY | O_DIRECTORY) < 0) _Exit(2);
    }
}

int main(int argc, char **argv)
{
    reserve_descriptors();
    /* A reader that goes away is seen as EPIPE by whoever writes. */
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    return cli_main(argc, argv);
}
