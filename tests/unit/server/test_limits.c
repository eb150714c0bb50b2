/* Tests of what bounds the server: admission, the memory plan, CPUs, keys, histograms. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/admission.h"
#include "server/cpus.h"
#include "server/keys.h"
#include "server/memory_plan.h"
#include "server/metrics.h"

Test(admission, counts_slots_and_bytes_and_gives_them_back)
{
    srv_admission a;
    srv_charge one, two, three = {0};
    srv_admission_init(&a, 16, 1000);
    cr_expect(srv_charge_open(&one, &a));
    cr_expect(srv_charge_items(&one, 500), "a long request counts an eighth at most");
    cr_expect_eq(atomic_load(&a.slots), 2);
    cr_expect(srv_charge_bytes(&one, 900));
    cr_expect(srv_charge_open(&two, &a));
    cr_expect_not(srv_charge_bytes(&two, 101));
    cr_expect(srv_charge_bytes(&two, 100));
    cr_expect(srv_charge_bytes(&one, 800));
    cr_expect(srv_charge_bytes(&two, 200));
    srv_charge_move(&three, &two);
    srv_charge_release(&two);
    cr_expect_eq(atomic_load(&a.bytes), 1000, "a moved charge is not given back twice");
    srv_charge_release(&three);
    srv_charge_release(&one);
    cr_expect_eq(atomic_load(&a.slots) + atomic_load(&a.bytes) + atomic_load(&a.requests), 0);
}

Test(admission, refuses_at_the_bound_and_treats_one_item_like_a_list_of_one)
{
    srv_admission a;
    srv_charge c[3];
    srv_admission_init(&a, 2, 1000);
    cr_expect(srv_charge_open(&c[0], &a) && srv_charge_items(&c[0], 1));
    cr_expect(srv_charge_open(&c[1], &a) && srv_charge_items(&c[1], 1));
    cr_expect_not(srv_charge_open(&c[2], &a));
    srv_charge_release(&c[0]);
    cr_expect(srv_charge_open(&c[2], &a));
    cr_expect_eq(atomic_load(&a.slots), 1, "a request without its body holds no slot");
    srv_charge_release(&c[1]);
    srv_charge_release(&c[2]);
}

Test(memory_plan, sums_its_parts_and_leaves_room_for_one_request)
{
    srv_memory_inputs in = {.model_bytes = 90,
                            .context_bytes = 10,
                            .available_bytes = 1 << 20,
                            .workers = 2,
                            .max_connections = 10,
                            .max_request_bytes = 1 << 27,
                            .max_reply_bytes = 1 << 26,
                            .max_body_bytes = 1 << 23,
                            .max_queue_items = 512};
    srv_memory_plan p = srv_memory_plan_make(&in);
    cr_expect_geq(p.requests, (1u << 27) + (1u << 26) + (1u << 23), "small machine");
    cr_expect_eq(p.bound, p.models + p.contexts + p.requests + p.decoding + p.connections + p.base);
    in.available_bytes = (size_t)1 << 40;
    p = srv_memory_plan_make(&in);
    cr_expect_eq(p.requests, 512 * (256u << 10) + 2 * (1u << 27), "what the limits can use");
    in.max_memory_bytes = 12345;
    p = srv_memory_plan_make(&in);
    cr_expect_eq(p.requests, 12345, "as it was set");
}

Test(cpus, reads_quotas)
{
    static const struct {
        const char *text;
        size_t cpus;
    } rows[] = {{"200000 100000\n", 2},
                {"150000 100000\n", 2},
                {"10000 100000", 1},
                {"max 100000\n", 0},
                {"", 0},
                {"100000", 0},
                {"0 100000", 0},
                {"1 0", 0},
                {"99999999999999999999 1", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq(srv_cpus_of_quota(rows[i].text), rows[i].cpus, "\"%s\"", rows[i].text);
    cr_expect_eq(srv_cpus_of_quota_v1("-1\n", "100000\n"), 0);
    cr_expect_eq(srv_cpus_of_quota_v1("250000\n", "100000\n"), 3);
    cr_expect_geq(srv_cpus_available(), 1);
    cr_expect_gt(srv_memory_available(), 1 << 20);
}

static lam_status load(srv_keys *k, const char *text)
{
    char path[32];
    int fd = memfd_create("keys", 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(fchmod(fd, 0600), 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    lam_err err;
    lam_status s = srv_keys_load(k, path, &err);
    close(fd);
    return s;
}

Test(keys, match_whole_keys_only)
{
    static const struct {
        const char *header;
        bool ok;
    } rows[] = {{"Bearer first", true},   {"bearer  second", true}, {"BEARER third", true},
                {"Bearer firs", false},   {"Bearer first1", false}, {"Bearer ", false},
                {"Basic first", false},   {"first", false},         {"Bearer #note", false},
                {"Bearer third\r", false}};
    srv_keys k;
    cr_assert_eq(load(&k, "first\n\n#note\nsecond\r\nthird"), LAM_OK);
    cr_expect_eq(k.count, 3);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq(srv_keys_match(&k, (srv_text){rows[i].header, strlen(rows[i].header)}),
                     rows[i].ok, "\"%s\"", rows[i].header);
    cr_expect_not(srv_keys_match(&k, (srv_text){0}));
    srv_keys_free(&k);
    cr_expect_eq(load(&k, "\n# nothing\n"), LAM_E_CONFIG);
    lam_err err;
    cr_expect_eq(srv_keys_load(&k, "/nowhere/keys", &err), LAM_E_FILE);
}

/* The number behind the line that starts with `name`. */
static unsigned long long line_value(const api_buffer *b, const char *name)
{
    const char *at = memmem(b->data, b->size, name, strlen(name));
    cr_assert_not_null(at, "no line %s", name);
    const char *from = at + strlen(name);
    char *end;
    const unsigned long long v = strtoull(from, &end, 10);
    cr_assert_gt(end - from, 0, "%s has no number", name);
    return v;
}

Test(metrics, add_up_workers_and_keep_buckets_cumulative)
{
    srv_metrics m;
    cr_assert(srv_metrics_init(&m, 2));
    srv_metrics_request(&m, SRV_LABEL_ENCODE, 200, 2000000);
    srv_metrics_request(&m, SRV_LABEL_ENCODE, 200, 90000000000);
    srv_metrics_request(&m, SRV_LABEL_ENCODE, 418, 1);
    srv_counter_add(&m.workers[0].tokens, 5);
    srv_counter_add(&m.workers[1].tokens, 7);
    srv_histogram_add(&m.workers[0].batch_items, srv_count_bounds, 4);
    srv_histogram_add(&m.workers[1].batch_items, srv_count_bounds, 5);
    api_buffer b;
    api_buffer_init(&b, 1 << 20);
    srv_metrics_write(&m, &(srv_gauges){.version = "x", .queue_items = 3}, &b);
    cr_assert_not(b.failed);
    static const struct {
        const char *line;
        unsigned long long value;
    } rows[] = {
        {"lamina_requests_total{route=\"/v1/encode\",code=\"200\"}", 2},
        {"lamina_requests_total{route=\"/v1/encode\",code=\"500\"}", 1},
        {"lamina_request_duration_seconds_bucket{route=\"/v1/encode\",le=\"0.001\"}", 1},
        {"lamina_request_duration_seconds_bucket{route=\"/v1/encode\",le=\"0.0025\"}", 2},
        {"lamina_request_duration_seconds_bucket{route=\"/v1/encode\",le=\"+Inf\"}", 3},
        {"lamina_request_duration_seconds_count{route=\"/v1/encode\"}", 3},
        {"\nlamina_tokens_total", 12},
        {"lamina_batch_size_bucket{le=\"4\"}", 1},
        {"lamina_batch_size_bucket{le=\"8\"}", 2},
        {"lamina_batch_size_sum", 9},
        {"\nlamina_queue_items", 3},
        {"lamina_build_info{version=\"x\"}", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq(line_value(&b, rows[i].line), rows[i].value, "%s", rows[i].line);
    api_buffer_free(&b);
    srv_metrics_fini(&m);
}
