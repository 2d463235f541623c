/* Arrays, signals ahead of a limit, and the options in scripts of Slurm and Grid Engine: what each comes to, and what is refused. */
#include "expect.h"

#include <stdio.h>
#include <string.h>

#include "htcsched/script.h"
#include "property.h"

/* ---- arrays ---- */

static const struct {
    const char *text;
    uint64_t    count, at_once;
    uint64_t    numbers[6]; /* the first */
} arrays[] = {
    { "5", 1, 0, { 5 } },
    { "0", 1, 0, { 0 } },
    { "1-100:2%5", 50, 5, { 1, 3, 5, 7, 9, 11 } },
    { "1-3,10,20-24:2", 7, 0, { 1, 2, 3, 10, 20, 22 } },
    { "10-12,1-2%1", 5, 1, { 10, 11, 12, 1, 2 } },
    { "1-999999999", 999999999, 0, { 1, 2, 3, 4, 5, 6 } },
    { "1-10:100", 1, 0, { 1 } },
    { "0-8:4,1-9:4,2,3", 8, 0, { 0, 4, 8, 1, 5, 9 } },
    { "001-003", 3, 0, { 1, 2, 3 } },
};

Test(script, arrays_have_their_numbers)
{
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        htc_array a = { .size = sizeof a };
        htc_error e = { 0 };
        cr_assert(htc_array_parse(arrays[i].text, &a, &e) == HTC_OK, "%s: %s", arrays[i].text, e.text);
        cr_assert(a.count == arrays[i].count && a.at_once == arrays[i].at_once, "%s: %llu", arrays[i].text, (unsigned long long)a.count);
        for (uint64_t k = 0; k < 6 && k < a.count; k++)
            cr_assert(htc_array_at(&a, k) == arrays[i].numbers[k], "%s at %llu", arrays[i].text, (unsigned long long)k);
        cr_assert(htc_array_at(&a, a.count) == 0);
    }
}

Test(script, what_is_no_array_is_refused)
{
    static const char *const bad[] = { "", "a", "1-", "-1", "3-1", "1-5:0", "1,", ",1", "1,,2", "1%", "1%0", "1%x", "1 ", " 1", "1-3:1:1", "1-3-5", "1-10,5",
                                       "1,1", "0-100:6,4-100:10", "5-50:15,20-21", "1%5,2" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        htc_array a = { .size = sizeof a };
        htc_error e = { 0 };
        cr_assert(htc_array_parse(bad[i], &a, &e) == HTC_EUSAGE && e.text[0], "%s", bad[i]);
        cr_assert(a.count == 0);
    }
    htc_array a = { .size = sizeof a };
    cr_assert(htc_array_parse("1-1000000000", &a, NULL) == HTC_ETOOBIG);
    cr_assert(htc_array_parse("99999999999999999999", &a, NULL) == HTC_ETOOBIG);
    char many[400] = "0";
    for (int i = 1; i <= HTC_ARRAY_RANGES_MAX; i++)
        sprintf(many + strlen(many), ",%d", i);
    cr_assert(htc_array_parse(many, &a, NULL) == HTC_ETOOBIG);
    cr_assert(htc_array_parse(NULL, &a, NULL) == HTC_EINVAL);
    a.size = 3;
    cr_assert(htc_array_parse("1", &a, NULL) == HTC_EINVAL);
}

/* Two ranges meet where counting says so. */
Test(script, a_number_twice_is_found)
{
    PROPERTY (rng, 2000) {
        uint64_t first[2], last[2], step[2];
        char     text[100], seen[200] = { 0 };
        int      twice = 0;
        for (int i = 0; i < 2; i++) {
            first[i] = htc_rng_below(&rng, 40);
            last[i] = first[i] + htc_rng_below(&rng, 60);
            step[i] = 1 + htc_rng_below(&rng, 17);
            for (uint64_t n = first[i]; n <= last[i]; n += step[i])
                twice |= seen[n]++;
        }
        snprintf(text, sizeof text, "%llu-%llu:%llu,%llu-%llu:%llu", (unsigned long long)first[0], (unsigned long long)last[0], (unsigned long long)step[0],
                 (unsigned long long)first[1], (unsigned long long)last[1], (unsigned long long)step[1]);
        htc_array a = { .size = sizeof a };
        HOLDS((htc_array_parse(text, &a, NULL) == HTC_EUSAGE) == (twice != 0));
    }
}

Test(script, signals)
{
    static const struct {
        const char *text;
        uint32_t    number, seconds; /* 0: refused */
    } cases[] = {
        { "USR1@60", 10, 60 }, { "SIGTERM@300", 15, 300 }, { "10@5", 10, 5 },  { "@90", 10, 90 },   { "B:USR2@1", 12, 1 }, { "INT", 2, 60 },
        { "64@1", 64, 1 },     { "", 0, 0 },               { "@", 0, 0 },      { "@0", 0, 0 },      { "FOO@1", 0, 0 },     { "65@1", 0, 0 },
        { "USR1@65536", 0, 0 }, { "USR1@6x", 0, 0 },       { "0@5", 0, 0 },    { "1 0@5", 0, 0 },   { "SIG@5", 0, 0 },     { "USR1@-5", 0, 0 },
        { "STOP@60", 0, 0 },    { "SIGTSTP@60", 0, 0 },    { "19@5", 0, 0 },   { "22@5", 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t   number = 0, seconds = 0;
        htc_status s = htc_signal_parse(cases[i].text, &number, &seconds);
        cr_assert((s == HTC_OK) == (cases[i].number != 0) && number == cases[i].number && seconds == cases[i].seconds, "%s", cases[i].text);
    }
}

/* ---- scripts ---- */

typedef struct told {
    char   text[4096];
    size_t n;
} told;

static htc_status tell(void *ctx, const htc_script_wish *w)
{
    told *t = ctx;
    t->n += (size_t)snprintf(t->text + t->n, sizeof t->text - t->n, "%u%s%s%s%s%s;", (unsigned)w->line, w->option ? " " : "", w->option ? w->option : "",
                             w->option && w->value[0] ? "=" : "", w->value, w->note ? "!" : "");
    return t->n < sizeof t->text ? HTC_OK : HTC_EFULL;
}

static const struct {
    const char *script, *told;
    uint32_t    dialect;
} scripts[] = {
    { "#!/bin/sh\necho\n", "", HTC_SCRIPT_NONE },
    { "#!/bin/sh\n#SBATCH -J dock\n#SBATCH --time=1-02:03\n", "2 name=dock;3 time=1-02:03;", HTC_SCRIPT_SLURM },
    { "#!/bin/sh\n#SBATCH --array=1-100:2%5 -o slurm-%A_%a.out\n", "2 array=1-100:2%5;2 output=slurm-%j_%a.out;", HTC_SCRIPT_SLURM },
    { "#SBATCH -n 4 -c2\n#SBATCH --mem-per-cpu=500\n", "1 cores=8;2 mem=4194304000B;", HTC_SCRIPT_SLURM },
    { "#SBATCH --gres=gpu:2,scratch_tb -L matlab:3,ansys@flex=2\n", "1!;1 gpus=2;1 res=scratch_tb=1;1 res=matlab=3;1 res=ansys=2;", HTC_SCRIPT_SLURM },
    { "#SBATCH --gres=gpu:2\n#SBATCH --gres=none\n#SBATCH -L a:1\n#SBATCH --licenses=b\n", "4 res=b=1;", HTC_SCRIPT_SLURM },
    { "#SBATCH -G4 --gpus-per-node=4 --cpus-per-gpu=3 --mem-per-gpu=1G\n", "1 cores=12;1 mem=4294967296B;1 gpus=4;", HTC_SCRIPT_SLURM },
    { "#SBATCH -N 2\n#SBATCH --gres=gpu:1,scratch_tb:2\n", "1 cores=2;1 node-cores=1;2 gpus=1;2 res=scratch_tb=2;", HTC_SCRIPT_SLURM },
    { "#SBATCH -N 2 --gpus=6 --mem-per-gpu=1G\n", "1 cores=2;1 node-cores=1;1 mem=3221225472B;1 gpus=3;", HTC_SCRIPT_SLURM },
    { "#SBATCH -n 3 --gpus-per-task=2 --gres=gres/gpu:6 --gpu-bind=closest\n", "1!;1 cores=3;1 gpus=6;", HTC_SCRIPT_SLURM },
    { "#SBATCH -N 2\n#SBATCH --ntasks-per-node=4 -c 2\n", "2 cores=16;2 node-cores=8;", HTC_SCRIPT_SLURM },
    { "#SBATCH -N 2\n#SBATCH --mem=1G\n", "1 cores=2;1 node-cores=1;2 mem=1073741824B;", HTC_SCRIPT_SLURM },
    { "#SBATCH --nodes=2-4 -n 8 --mem-per-cpu=1G\n", "1!;1 cores=8;1 node-cores=4;1 mem=4294967296B;", HTC_SCRIPT_SLURM },
    { "#SBATCH -n 8 --ntasks-per-node=4\n", "1 cores=8;1 node-cores=4;", HTC_SCRIPT_SLURM },
    { "#SBATCH -n 3 --ntasks-per-node=4\n", "1 cores=3;", HTC_SCRIPT_SLURM },
    { "#SBATCH --ntasks-per-node=4\n", "1 cores=4;", HTC_SCRIPT_SLURM },
    { "#SBATCH --mem=4G --mem-per-cpu=1G -c 2\n", "1 cores=2;1 mem=2147483648B;", HTC_SCRIPT_SLURM },
    { "#SBATCH --container /images/debian/\n", "1 container=/images/debian/rootfs!;", HTC_SCRIPT_SLURM },
    { "#$ -l gpu=2,matlab=1 -pe smp 4\n", "1 cores=4;1 gpus=8!;1 res=matlab=4!;", HTC_SCRIPT_SGE },
    { "#$ -l gpu\n#$ -l gpu=2,num_proc=8,mem_total=4,matlab=1 -l matlab=3\n", "2!;2!;2 gpus=2;2 res=matlab=3;", HTC_SCRIPT_SGE },
    { "#SBATCH --mem 2G\n#SBATCH -N1 --ntasks=1\n", "2 cores=1;1 mem=2147483648B;", HTC_SCRIPT_SLURM },
    { "#SBATCH --dependency=afterok:5:6,afterany:7,afternotok:8\n", "1 after=5;1 after=6;1 after=7:any;1 after=8:failed;", HTC_SCRIPT_SLURM },
    { "#SBATCH --export=NONE,A,B=two,\n#SBATCH --export ALL\n", "1 env=A;1 env=B=two;2!;", HTC_SCRIPT_SLURM },
    { "#SBATCH --begin=now+1hour --hold -D /data # and no more\n", "1 begin=now+1hour;1 hold;1 workdir=/data;", HTC_SCRIPT_SLURM },
    { "#SBATCH -J 'two words' --comment \"a # b\"\n", "1 name=two words;", HTC_SCRIPT_SLURM },
    { "#SBATCH -p long --qos=high -A us\n", "1!;1!;1!;", HTC_SCRIPT_SLURM },
    { "#SBATCH -e /var/log/%x.err -i in.txt\n", "1 error=%n.err!;1 stdin=in.txt;", HTC_SCRIPT_SLURM },
    { "#SBATCH --signal=B:USR1@120\n#SBATCH --signal=TERM@30\n", "1 signal=B:USR1@120;2 signal=TERM@30!;", HTC_SCRIPT_SLURM },
    { "#SBATCH --mail-user=a@b --mail-type=END,FAIL\n", "1 mail-to=a@b;", HTC_SCRIPT_SLURM },
    { "#SBATCH --mail-user=a@b --mail-type=FAIL\n", "1 mail-to=a@b;1 mail-on=fail;", HTC_SCRIPT_SLURM },
    { "#SBATCH --mail-user=a@b\n", "1 mail-to=a@b;1 mail-on=none;", HTC_SCRIPT_SLURM },
    { "#SBATCH --nice=50 --time=UNLIMITED\n", "1 priority=-50;", HTC_SCRIPT_SLURM },
    { "#!/bin/sh\n\n  # a comment\n#SBATCH -J a\nset -e\n#SBATCH -J b\n", "4 name=a;", HTC_SCRIPT_SLURM },
    { "#!/bin/sh\r\n#SBATCH -J a\r\n", "2 name=a;", HTC_SCRIPT_SLURM },
    { "#SBATCHES -J a\n# SBATCH -J b\n##SBATCH -J c\n #SBATCH -J d\n", "", HTC_SCRIPT_NONE },
    { "#!/bin/sh\n#$ -N dock -t 1-10:2 -tc 3\n", "2 name=dock;2 array=1-10:2;2 max-running=3;", HTC_SCRIPT_SGE },
    { "#$ -l h_rt=1:30:00,h_vmem=2G -pe smp 4\n", "1 time=5400s;1 cores=4;1 mem=8589934592B;", HTC_SCRIPT_SGE },
    { "#$ -l h_rt=90 -l arch=lx-amd64\n", "1 time=90s;1!;", HTC_SCRIPT_SGE },
    { "#$ -cwd -V -v A=1,B -o out/$JOB_NAME.o$JOB_ID.$TASK_ID -j y\n", "1 workdir=here;1!;1 env=A=1;1 env=B;1 output=out/%n.o%j.%a;1!;", HTC_SCRIPT_SGE },
    { "#$ -hold_jid 4,5 -a 202611302215.30 -h\n", "1 after=4:any;1 after=5:any;1 begin=2026-11-30T22:15:30;1 hold;", HTC_SCRIPT_SGE },
    { "#$ -a 11302215\n", "1 begin=11/30-22:15:00;", HTC_SCRIPT_SGE },
    { "#$ -soft -l gpu=1 -hard -q all.q -p -5 -sync y\n", "1!;1!;1 priority=-5;1 wait;", HTC_SCRIPT_SGE },
    { "#$ -m ea -M a@b\necho\n#$ -N late\n", "1 mail-to=a@b;3 name=late;", HTC_SCRIPT_SGE },
    { "#$ -S /bin/bash -notify -r y -e /scratch/x.err -wd /data -i in\n", "1!;1!;1!;1 error=x.err!;1 workdir=/data;1 stdin=in;", HTC_SCRIPT_SGE },
    { "#$ -o 50%.out\n", "1 output=50%%.out;", HTC_SCRIPT_SGE },
    { "#$ -pe smp 2-8\n", "1!;1 cores=2;", HTC_SCRIPT_SGE },
};

Test(script, options_are_told)
{
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        told      t = { .n = 0 };
        uint32_t  dialect = 9;
        htc_error e = { 0 };
        htc_status s = htc_script_read(htc_bytes_of(scripts[i].script), tell, &t, &dialect, &e);
        cr_assert(s == HTC_OK, "%s: %s", scripts[i].script, e.text);
        cr_assert(strcmp(t.text, scripts[i].told) == 0, "%s\nis told as %s\nand not    %s", scripts[i].script, t.text, scripts[i].told);
        cr_assert(dialect == scripts[i].dialect);
    }
}

static const struct {
    const char *script;
    uint32_t    line;
    htc_status  status;
} refused[] = {
    { "#!/bin/sh\n#SBATCH --gres=gpu:a100:2\n", 2, HTC_EUNSUPPORTED },
    { "#SBATCH --gres=gpu:a100\n", 1, HTC_EUNSUPPORTED },
    { "#SBATCH --gpus=a100:2\n", 1, HTC_EUNSUPPORTED },
    { "#SBATCH --gpus=x\n", 1, HTC_EUNSUPPORTED },
    { "#SBATCH --gpus=2000000\n", 1, HTC_EUSAGE },
    { "#SBATCH --gpus=2\n#SBATCH --gres=gpu:3\n", 2, HTC_EUSAGE },
    { "#SBATCH --cpus-per-gpu=2\n", 1, HTC_EUSAGE },
    { "#SBATCH --mem-per-gpu=2\n", 1, HTC_EUSAGE },
    { "#SBATCH --cpus-per-gpu=2 -G1 -c1\n", 1, HTC_EUSAGE },
    { "#SBATCH -L a:1|b:1\n", 1, HTC_EUNSUPPORTED },
    { "#SBATCH -L MATLAB:1\n", 1, HTC_EUNSUPPORTED },
    { "#SBATCH -L a,a\n", 1, HTC_EUSAGE },
    { "#SBATCH -N 2 -n 3\n", 1, HTC_EUNSUPPORTED },
    { "#SBATCH -N 2\n#SBATCH --gpus=3\n", 2, HTC_EUNSUPPORTED },
    { "#SBATCH -N 2\n#SBATCH -L matlab:1\n", 2, HTC_EUNSUPPORTED },
    { "#SBATCH -N 2 -L a\n", 1, HTC_EUNSUPPORTED },
    { "#SBATCH -N 2 -n 8 --ntasks-per-node=2\n", 1, HTC_EUSAGE },
    { "#SBATCH -N 4-2\n", 1, HTC_EUSAGE },
    { "#SBATCH -N 0\n", 1, HTC_EUSAGE },
    { "#SBATCH -N 200\n", 1, HTC_ETOOBIG },
    { "#SBATCH --container images\n", 1, HTC_EUSAGE },
    { "#$ -l MATLAB=1\n", 1, HTC_EUNSUPPORTED },
    { "#$ -l gpu=x\n", 1, HTC_EUSAGE },
    { "#SBATCH --frobnicate\n", 1, HTC_EUNSUPPORTED },
    { "#SBATCH -N x\n", 1, HTC_EUNSUPPORTED },
    { "#SBATCH -n 0\n", 1, HTC_EUSAGE },
    { "#SBATCH -n x\n", 1, HTC_EUSAGE },
    { "#SBATCH --time\n", 1, HTC_EUSAGE },
    { "#SBATCH --hold=yes\n", 1, HTC_EUSAGE },
    { "#SBATCH -J 'open\n", 1, HTC_EUSAGE },
    { "#SBATCH word\n", 1, HTC_EUNSUPPORTED },
    { "#SBATCH --exclusive\n", 1, HTC_EUNSUPPORTED },
    { "#SBATCH -d singleton\n", 1, HTC_EUNSUPPORTED },
    { "#SBATCH -d afterok:5?afterok:6\n", 1, HTC_EUNSUPPORTED },
    { "#SBATCH -d afterok:5_3\n", 1, HTC_EUNSUPPORTED },
    { "#SBATCH -o %N.out\n", 1, HTC_EUNSUPPORTED },
    { "#SBATCH -o out%\n", 1, HTC_EUNSUPPORTED },
    { "#SBATCH -i in%a\n", 1, HTC_EUNSUPPORTED },
    { "#SBATCH --mem=4X\n", 1, HTC_EUSAGE },
    { "#SBATCH --mem=4000000000T\n", 1, HTC_EUSAGE },
    { "#SBATCH -n 60000 -c 60000\n", 1, HTC_ETOOBIG },
    { "#SBATCH -n 60000 --mem-per-cpu=1000000T\n", 1, HTC_ETOOBIG },
    { "#SBATCH -J a\n#$ -N b\n", 2, HTC_EUSAGE },
    { "#$ -t 0-5\n", 1, HTC_EUSAGE },
    { "#$ -t 1-5%2\n", 1, HTC_EUSAGE },
    { "#$ -pe smp\n", 1, HTC_EUSAGE },
    { "#$ -pe smp many\n", 1, HTC_EUSAGE },
    { "#$ -l h_vmem\n", 1, HTC_EUSAGE },
    { "#$ -l h_rt=0\n", 1, HTC_EUSAGE },
    { "#$ -l exclusive\n", 1, HTC_EUNSUPPORTED },
    { "#$ -hold_jid dock\n", 1, HTC_EUNSUPPORTED },
    { "#$ -a 1130\n", 1, HTC_EUSAGE },
    { "#$ -b y\n", 1, HTC_EUNSUPPORTED },
    { "#$ -o $HOME/x\n", 1, HTC_EUNSUPPORTED },
    { "#$ --time=5\n", 1, HTC_EUNSUPPORTED },
    { "#$ -m q\n", 1, HTC_EUSAGE },
};

Test(script, what_would_make_another_job_is_refused_with_its_line)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        told       t = { .n = 0 };
        htc_error  e = { 0 };
        htc_status s = htc_script_read(htc_bytes_of(refused[i].script), tell, &t, NULL, &e);
        cr_assert(s == refused[i].status && e.line == refused[i].line && e.text[0] && e.hint[0], "%s: %s line %u %s", refused[i].script, htc_status_name(s),
                  (unsigned)e.line, e.text);
    }
}

Test(script, lines_and_options_are_bounded)
{
    char      text[HTC_SCRIPT_LINE_MAX + 100];
    told      t = { .n = 0 };
    htc_error e = { 0 };
    memset(text, 'a', sizeof text);
    memcpy(text, "#SBATCH --comment ", 18);
    cr_assert(htc_script_read((htc_bytes){ text, HTC_SCRIPT_LINE_MAX }, tell, &t, NULL, &e) == HTC_OK);
    cr_assert(htc_script_read((htc_bytes){ text, HTC_SCRIPT_LINE_MAX + 1 }, tell, &t, NULL, &e) == HTC_ETOOBIG);
    memcpy(text, "#!", 2);
    cr_assert(htc_script_read((htc_bytes){ text, sizeof text }, tell, &t, NULL, &e) == HTC_OK, "other lines may be as long as they like");
    memcpy(text, "#SBATCH -J a\0b", 14);
    cr_assert(htc_script_read((htc_bytes){ text, 14 }, tell, &t, NULL, &e) == HTC_EUSAGE);
    char many[4 * (HTC_SCRIPT_OPTIONS_MAX + 2) + 16] = "#SBATCH ";
    for (size_t i = 0; i <= HTC_SCRIPT_OPTIONS_MAX; i++)
        strcat(many, "-v ");
    cr_assert(htc_script_read(htc_bytes_of(many), tell, &t, NULL, &e) == HTC_ETOOBIG);
    cr_assert(htc_script_read(htc_bytes_of("#SBATCH -J a"), NULL, NULL, NULL, NULL) == HTC_EINVAL);
}

static htc_status stop(void *ctx, const htc_script_wish *w)
{
    (void)ctx;
    (void)w;
    return HTC_ENOSPC;
}

Test(script, who_is_told_may_end_it)
{
    cr_assert(htc_script_read(htc_bytes_of("#SBATCH -J a"), stop, NULL, NULL, NULL) == HTC_ENOSPC);
}
