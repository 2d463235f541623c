/* As whom a site's agents are started: what the file of its credentials says, and how the site's commands are told. Pure.
 *
 * A line is "name = value"; # begins a comment. Of ssh: user, identity (a file with the private key). Of Slurm: account, qos. Of Grid Engine: project, account.
 * None of it stands among the words of a command, which all users of a machine can list: ssh reads it from a file, and sbatch and qsub from lines of the script
 * that they get on standard input. Errors name a line, and never what stands there. */
#ifndef HTC_ROLES_BATCH_SITE_CREDENTIALS_H
#define HTC_ROLES_BATCH_SITE_CREDENTIALS_H

#include "core/util.h"
#include "core/codec.h"

#define SITE_CREDENTIALS_MAX 4096 /* bytes of the file */

typedef struct site_credentials {
    char user[64], identity[1024], account[128], qos[128], project[128]; /* "": not said */
} site_credentials;

/* system: ssh, slurm, sge or emu. HTC_ECONFIG: it says something else, or nothing; error has the number of the line. */
htc_status htc__site_credentials_read(htc_bytes text, const char *system, site_credentials *out, htc_error *error);
/* Lines for a script, as "#SBATCH --account=physics"; of ssh none. */
void htc__site_credentials_lines(const site_credentials *c, const char *system, htc_buf *out);
/* A file for ssh -F: it goes on with the user's own and the machine's. */
void htc__site_credentials_ssh(const site_credentials *c, htc_buf *out);

#endif
