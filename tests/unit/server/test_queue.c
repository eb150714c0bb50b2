/* Tests of batching: what a worker gets of the jobs that are there. Jobs are made by hand, without
 * models. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "server/queue.h"

enum { ROWS = 256 };

static const api_model model_a, model_b;

static srv_job *make_job(const api_model *model, size_t items, size_t rows, bool stats)
{
    srv_job *job = calloc(1, sizeof *job);
    job->request.items = calloc(items, sizeof *job->request.items);
    for (size_t i = 0; i < items; i++) {
        job->request.items[i].rows = rows;
        job->request.items[i].index = i;
    }
    job->request.model = model;
    job->request.item_count = items;
    job->request.rows = items * rows;
    job->request.stats = stats ? (lam_stats *)job : NULL;
    atomic_init(&job->due_ns, UINT64_MAX);
    return job;
}

static void free_job(srv_job *job)
{
    free(job->request.items);
    free(job);
}

typedef struct fixture {
    srv_queue queue;
    srv_batch batch, other;
    size_t decoded;
    srv_job *job;
} fixture;

static fixture f;

static void setup(void)
{
    cr_assert(srv_queue_init(&f.queue, ROWS));
    cr_assert(srv_batch_init(&f.batch, ROWS));
    cr_assert(srv_batch_init(&f.other, ROWS));
}

static void teardown(void)
{
    srv_batch_fini(&f.batch);
    srv_batch_fini(&f.other);
    srv_queue_fini(&f.queue);
}

static srv_work take(srv_batch *b)
{
    return srv_queue_take(&f.queue, &f.decoded, &f.job, b);
}

TestSuite(queue, .init = setup, .fini = teardown);

Test(queue, gives_a_lone_job_whole_and_at_once)
{
    srv_job *job = make_job(&model_a, 3, 16, false);
    srv_queue_submit(&f.queue, job);
    cr_expect_eq(srv_queue_depth(&f.queue), 1);
    cr_expect_eq(take(&f.batch), SRV_WORK_DECODE);
    cr_expect_eq(f.job, job);
    srv_queue_ready(&f.queue, job);
    cr_expect_eq(take(&f.batch), SRV_WORK_BATCH);
    cr_expect_eq(f.batch.item_count, 3);
    cr_expect_eq(f.batch.rows, 48);
    cr_expect_eq(srv_queue_finish(&f.queue, &f.batch, true), 1);
    cr_expect_eq(f.batch.slices[0].job, job);
    cr_expect_eq(srv_queue_depth(&f.queue), 0);
    free_job(job);
}

Test(queue, splits_a_long_job_and_finishes_it_once)
{
    srv_job *job = make_job(&model_a, 100, 100, false);
    srv_queue_ready(&f.queue, job);
    size_t seen = 0, finished = 0;
    for (int i = 0; i < 50; i++) {
        cr_assert_eq(take(&f.batch), SRV_WORK_BATCH);
        cr_expect_leq(f.batch.rows, ROWS);
        cr_expect_eq(f.batch.items[0].index, seen, "items go out in order");
        seen += f.batch.item_count;
        finished += srv_queue_finish(&f.queue, &f.batch, true);
        cr_expect_eq(finished, seen == 100);
    }
    cr_expect_eq(seen, 100);
    free_job(job);
}

Test(queue, lets_a_short_job_pass_a_long_one)
{
    srv_job *big = make_job(&model_a, 2048, 32, false);
    srv_job *small = make_job(&model_a, 1, 32, false);
    srv_queue_ready(&f.queue, big);
    srv_queue_ready(&f.queue, small);
    cr_assert_eq(take(&f.batch), SRV_WORK_BATCH);
    cr_expect_eq(f.batch.rows, ROWS, "the batch is full, not %zu", f.batch.rows);
    cr_expect_eq(srv_queue_finish(&f.queue, &f.batch, true), 1,
                 "the short job is done in the first batch");
    cr_expect_eq(f.batch.slices[0].job, small);
    cr_assert(srv_queue_withdraw(&f.queue, big));
    cr_expect_eq(f.queue.ready_rows, 0);
    free_job(big);
    free_job(small);
}

Test(queue, an_item_that_does_not_fit_comes_to_the_head)
{
    srv_job *one = make_job(&model_a, 1, 100, false);
    srv_job *large = make_job(&model_a, 1, ROWS, false);
    srv_job *two = make_job(&model_a, 1, ROWS - 100, false);
    srv_job *three = make_job(&model_a, 1, ROWS, false);
    srv_queue_ready(&f.queue, one);
    srv_queue_ready(&f.queue, large);
    srv_queue_ready(&f.queue, two);
    srv_queue_ready(&f.queue, three);
    cr_assert_eq(take(&f.batch), SRV_WORK_BATCH);
    cr_expect_eq(f.batch.rows, ROWS, "one and two pass it");
    cr_assert_eq(take(&f.other), SRV_WORK_BATCH);
    cr_expect_eq(f.other.slices[0].job, large);
    free_job(three);
    free_job(one);
    free_job(large);
    free_job(two);
}

Test(queue, keeps_models_and_statistics_apart)
{
    srv_job *a = make_job(&model_a, 8, 64, true);
    srv_job *b = make_job(&model_b, 1, 16, false);
    srv_queue_ready(&f.queue, a);
    cr_assert_eq(take(&f.batch), SRV_WORK_BATCH);
    for (size_t i = 0; i < f.batch.slice_count; i++)
        cr_expect_eq(f.batch.slices[i].job, a);
    for (size_t i = 0; i < f.batch.item_count; i++)
        cr_expect_eq(f.batch.items[i].index, i);
    srv_queue_ready(&f.queue, b);
    /* Another worker may not run the next slice of a meanwhile. */
    cr_assert_eq(take(&f.other), SRV_WORK_BATCH);
    cr_expect_eq(f.other.slice_count, 1);
    cr_expect_eq(f.other.slices[0].job, b);
    cr_expect_eq(srv_queue_finish(&f.queue, &f.other, true), 1);
    cr_expect_eq(srv_queue_finish(&f.queue, &f.batch, true), 0);
    cr_assert_eq(take(&f.batch), SRV_WORK_BATCH);
    cr_expect_eq(f.batch.slices[0].job, a);
    cr_expect_eq(f.batch.slices[0].first, 4);
    cr_expect_eq(srv_queue_finish(&f.queue, &f.batch, true), 1);
    free_job(a);
    free_job(b);
}

Test(queue, drops_what_is_late_or_dead)
{
    srv_job *late = make_job(&model_a, 2, 16, false);
    srv_job *dead = make_job(&model_a, 2, 16, false);
    srv_job *half = make_job(&model_a, 2, ROWS, false);
    atomic_store(&late->due_ns, 1);
    srv_queue_submit(&f.queue, late);
    cr_expect_eq(take(&f.batch), SRV_WORK_DROPPED);
    cr_expect_eq(f.job, late);
    srv_queue_ready(&f.queue, dead);
    atomic_store(&dead->dead, true);
    cr_expect_eq(take(&f.batch), SRV_WORK_DROPPED);
    cr_expect_eq(f.job, dead);
    cr_expect_eq(f.queue.ready_rows, 0);
    /* A job that is half run: its second half is not given out, and it ends with its first. */
    srv_queue_ready(&f.queue, half);
    cr_assert_eq(take(&f.batch), SRV_WORK_BATCH);
    atomic_store(&half->due_ns, 1);
    srv_job *next = make_job(&model_a, 1, 16, false);
    srv_queue_ready(&f.queue, next);
    cr_assert_eq(take(&f.other), SRV_WORK_BATCH);
    cr_expect_eq(f.other.slices[0].job, next);
    cr_expect_eq(srv_queue_finish(&f.queue, &f.batch, true), 1);
    cr_expect(half->failed);
    cr_expect_eq(half->error.code, API_CODE_DEADLINE);
    free_job(late);
    free_job(dead);
    free_job(half);
    free_job(next);
}

Test(queue, withdraws_only_what_nobody_holds)
{
    srv_job *job = make_job(&model_a, 4, ROWS, false);
    srv_queue_submit(&f.queue, job);
    cr_expect(srv_queue_withdraw(&f.queue, job));
    srv_queue_submit(&f.queue, job);
    cr_assert_eq(take(&f.batch), SRV_WORK_DECODE);
    cr_expect_not(srv_queue_withdraw(&f.queue, job), "under decoding");
    srv_queue_ready(&f.queue, job);
    cr_assert_eq(take(&f.batch), SRV_WORK_BATCH);
    cr_expect_not(srv_queue_withdraw(&f.queue, job), "a slice is out");
    cr_expect_eq(srv_queue_finish(&f.queue, &f.batch, false), 1, "abandoned: ends as it is");
    cr_expect_eq(srv_queue_depth(&f.queue), 0);
    free_job(job);
}

Test(queue, stops_when_it_is_empty)
{
    srv_job *job = make_job(&model_a, 1, 16, false);
    srv_queue_ready(&f.queue, job);
    srv_queue_stop(&f.queue);
    cr_expect_eq(take(&f.batch), SRV_WORK_BATCH);
    cr_expect_eq(take(&f.other), SRV_WORK_STOP);
    free_job(job);
}
