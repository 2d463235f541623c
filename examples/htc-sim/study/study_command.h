/* htc-sim run, htc-sim resume, and the models: htc-sim fairshare and so on. */
#ifndef HTC_SIM_STUDY_COMMAND_H
#define HTC_SIM_STUDY_COMMAND_H

int  study_is_command(const char *name);
int  study_command(int argc, char **argv); /* argv[0] is the command. What to end with */
void study_help(const char *name);         /* of that command */
void study_list(void);                     /* a line for each command */
const char *study_nearest(const char *name); /* the command that was probably meant; NULL: none */

#endif
