/* Total cost of ownership of a cluster beside the price of leased instances: a calculation, as a model, so that it varies and is compared like one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "htcsched/provision.h"
#include "model.h"
#include "plot.h"
#include "study.h"

typedef struct tco {
    htc_provision_owning  owning;
    htc_provision_leasing leasing;
    uint64_t              owned, leased; /* a month */
} tco;

/* Amounts are whole thousandths of a cent. */
#define PARTS 100000.0

static const setting table[] = {
    { "sim.model", SET_CHOICE, "tco", 0, 0, "tco" },
    { "sim.seed", SET_COUNT, "1", 0, 9e18, "a number" },
    { "sim.memory", SET_SIZE, "0", 0, 0, "bytes" },
    { "dcs.capex", SET_REAL, "120000", 0, 2.8e9, "an amount, at most 2.8 10^9" },
    { "dcs.years", SET_COUNT, "8", 1, 1000, "a number from 1 to 1000" },
    { "dcs.maintenance", SET_REAL, "30000", 0, 2.8e9, "an amount, at most 2.8 10^9" },
    { "dcs.energy_space", SET_REAL, "1600", 0, 2.8e9, "an amount a month, at most 2.8 10^9" },
    { "ssp.instances", SET_COUNT, "30", 0, 16777216, "a number from 0 to 16777216" },
    { "ssp.price", SET_REAL, "0.1", 0, 167, "an amount an hour, at most 167" },
    { "ssp.inbound", SET_COUNT, "1000", 0, 16777216, "gigabytes a month, from 0 to 16777216" },
    { "ssp.gigabyte", SET_REAL, "0.1", 0, 167, "an amount, at most 167" },
    { NULL, 0, NULL, 0, 0, NULL },
};

static uint64_t amount(const settings *s, const char *key)
{
    return (uint64_t)(settings_real(s, key) * PARTS + 0.5);
}

static void *open_run(settings *s, uint64_t seed, int drawn, htc_error *error)
{
    tco *t = calloc(1, sizeof *t);
    (void)seed;
    (void)drawn;
    if (!t) {
        *error = (htc_error){ .status = HTC_ENOMEM, .text = "no memory" };
        return NULL;
    }
    t->owning = (htc_provision_owning){ amount(s, "dcs.capex"), amount(s, "dcs.maintenance"), amount(s, "dcs.energy_space"), (uint32_t)settings_count(s, "dcs.years") };
    t->leasing = (htc_provision_leasing){ settings_count(s, "ssp.instances"), amount(s, "ssp.price"), settings_count(s, "ssp.inbound"), amount(s, "ssp.gigabyte") };
    return t;
}

static int run_it(void *run, const htc_scale_tape *to, watch *w, htc_error *error)
{
    tco *t = run;
    (void)to; /* it takes no time */
    watch_close(w);
    if (htc_provision_cost_of_owning(&t->owning, &t->owned) == HTC_OK && htc_provision_cost_of_leasing(&t->leasing, &t->leased) == HTC_OK)
        return 1;
    *error = (htc_error){ .status = HTC_EINVAL, .text = "an amount is out of range", .hint = "change its settings" };
    return 0;
}

enum { OWNED, LEASED, PART };
static const measure measures[] = { [OWNED] = { "dcs", 2 }, [LEASED] = { "ssp", 2 }, [PART] = { "ssp_of_dcs", 4 }, { NULL, 0 } };

static double part(const tco *t)
{
    return t->owned ? (double)t->leased / (double)t->owned : 0;
}

static void outcome_of(const void *run, outcome *o)
{
    const tco *t = run;
    o->done = 1;
    o->value[OWNED] = (double)t->owned / PARTS;
    o->value[LEASED] = (double)t->leased / PARTS;
    o->value[PART] = part(t);
}

static void say(const void *run, int json)
{
    const tco *t = run;
    double     months = 12.0 * t->owning.years, capex = (double)t->owning.capex / PARTS / months, maintenance = (double)t->owning.maintenance / PARTS / months;
    double     hours = (double)t->leasing.instances * 24 * 30 * (double)t->leasing.instance_hour / PARTS;
    if (json) {
        printf("{\"dcs\":%.5f,\"ssp\":%.5f,\"ssp_of_dcs\":%.6f,\"capex\":%.5f,\"maintenance\":%.5f,\"energy_space\":%.5f,\"instance_hours\":%.5f,\"transfer\":%.5f}\n",
               (double)t->owned / PARTS, (double)t->leased / PARTS, part(t), capex, maintenance, (double)t->owning.energy_space / PARTS, hours, (double)t->leased / PARTS - hours);
        return;
    }
    printf("a dedicated cluster  %12.2f a month: %.2f for the machines, %.2f for maintenance, %.2f for energy and space\n"
           "leased instances     %12.2f a month: %.2f for %" PRIu64 " instances, %.2f for %" PRIu64 " GB in\n"
           "leased of dedicated  %11.1f %%\n",
           (double)t->owned / PARTS, capex, maintenance, (double)t->owning.energy_space / PARTS, (double)t->leased / PARTS, hours, t->leasing.instances, (double)t->leased / PARTS - hours,
           t->leasing.inbound_gb, 100 * part(t));
}

static int plot(const void *run, const char *folder, const char *suffix)
{
    const tco *t = run;
    FILE      *out = plot_open(folder, "tco", suffix, "csv");
    if (out)
        fprintf(out, "dcs,ssp,ssp_of_dcs\n%.5f,%.5f,%.6f\n", (double)t->owned / PARTS, (double)t->leased / PARTS, part(t));
    return plot_close(out);
}

static const model_option options[] = {
    { "capex", "AMOUNT", "dcs.capex", "for the machines of a dedicated cluster (120000)" },
    { "years", "N", "dcs.years", "that they last (8)" },
    { "maintenance", "AMOUNT", "dcs.maintenance", "in all these years together (30000)" },
    { "energy-space", "AMOUNT", "dcs.energy_space", "a month (1600)" },
    { "instances", "N", "ssp.instances", "that are leased all the time (30)" },
    { "hour", "AMOUNT", "ssp.price", "of one for an hour (0.1)" },
    { "inbound", "N", "ssp.inbound", "gigabytes that come in in a month (1000)" },
    { "gigabyte", "AMOUNT", "ssp.gigabyte", "the price of one (0.1)" },
    { NULL, NULL, NULL, NULL },
};

static const model_preset presets[] = { { NULL, NULL } };

const model tco_model = { .name = "tco", .about = "what a dedicated cluster costs in a month, and what leased instances do", .table = table, .options = options, .presets = presets,
                          .measures = measures, .open = open_run, .run = run_it, .outcome = outcome_of, .say = say, .plot = plot, .close = free };
