// The compute thread, with a worker that only counts.
#include "node/compute.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>

typedef struct fixture {
    uv_loop_t loop;
    compute *c;
    pthread_t loop_thread, run_thread;
    uint32_t wanted, answered;
} fixture;

static void run(void *context, const job *work, job_result *result) {
    fixture *f = context;
    f->run_thread = pthread_self();
    result->hash64 = work->m * 3u;
    result->id = 99;  // only the thread knows
}

static void done(void *context, const job *work, const job_result *result) {
    fixture *f = context;
    assert_true(pthread_equal(pthread_self(), f->loop_thread));
    assert_false(pthread_equal(f->run_thread, f->loop_thread));
    assert_int_equal(result->id, work->id);
    assert_int_equal(result->kind, JOB_FORWARD);
    assert_int_equal(result->hash64, 3 * f->answered);
    assert_false(compute_busy(f->c));
    if (++f->answered == f->wanted) {
        compute_close(f->c);
        return;
    }
    compute_post(f->c, &(job){.id = f->answered + 1, .kind = JOB_FORWARD, .m = f->answered});
    assert_true(compute_busy(f->c));
}

static void answers_come_back_in_order_on_the_loop(void **state) {
    (void)state;
    fixture f = {.wanted = 2000, .loop_thread = pthread_self()};
    uv_loop_init(&f.loop);
    assert_int_equal(compute_new(&f.loop, run, done, &f, &f.c, NULL), BRAID_OK);
    compute_post(f.c, &(job){.id = 1, .kind = JOB_FORWARD});
    uv_run(&f.loop, UV_RUN_DEFAULT);
    assert_int_equal(f.answered, f.wanted);
    assert_int_equal(uv_loop_close(&f.loop), 0);
}

static void an_answer_after_the_end_is_dropped(void **state) {
    (void)state;
    fixture f = {.wanted = 10, .loop_thread = pthread_self()};
    uv_loop_init(&f.loop);
    assert_int_equal(compute_new(&f.loop, run, done, &f, &f.c, NULL), BRAID_OK);
    compute_post(f.c, &(job){.id = 1, .kind = JOB_FORWARD});
    compute_close(f.c);
    uv_run(&f.loop, UV_RUN_DEFAULT);
    assert_int_equal(f.answered, 0);
    assert_int_equal(uv_loop_close(&f.loop), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_come_back_in_order_on_the_loop),
        cmocka_unit_test(an_answer_after_the_end_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
