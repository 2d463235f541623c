/* A thread with work and a thread without: the one pushes tasks and pops them, the other takes the oldest half. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "htcsched/deque.h"

enum { TASKS = 1000 };

static htc_deque  *work;
static long        squares[TASKS];
static atomic_uint done;

static void run(void *task)
{
    long i = (long *)task - squares;
    squares[i] = i * i;
    atomic_fetch_add(&done, 1);
}

static void *helper(void *unused)
{
    htc_deque *own;
    void      *task;
    if (htc_deque_create(NULL, NULL, &own) != HTC_OK)
        return unused;
    while (atomic_load(&done) < TASKS)
        if (htc_deque_pop(own, &task) == HTC_OK)
            run(task);
        else
            htc_deque_steal_half(work, own, SIZE_MAX, NULL); /* HTC_EMPTY or HTC_AGAIN: the loop comes back */
    htc_deque_destroy(own);
    return unused;
}

int main(void)
{
    pthread_t thread;
    void     *task;
    long      sum = 0;
    if (htc_deque_create(NULL, NULL, &work) != HTC_OK)
        return 1;
    for (int i = 0; i < TASKS; i++)
        htc_deque_push(work, &squares[i]);
    htc_deque_expose(work); /* it may be a while before we look at it again */
    printf("%zu tasks, all of which may be stolen\n", htc_deque_size_public(work));
    if (pthread_create(&thread, NULL, helper, NULL) != 0)
        return 1;
    while (htc_deque_pop(work, &task) == HTC_OK)
        run(task);
    pthread_join(thread, NULL);
    for (int i = 0; i < TASKS; i++)
        sum += squares[i];
    printf("%u done, each once; the sum of their squares is %ld\n", atomic_load(&done), sum);
    htc_deque_destroy(work);
    return 0;
}
