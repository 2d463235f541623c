/* htc-sim run and htc-sim fairshare. */
#ifndef HTC_SIM_STUDY_COMMAND_H
#define HTC_SIM_STUDY_COMMAND_H

int study_command(int argc, char **argv); /* argv[0] is the command. What to end with */
extern const char study_help[];

#endif
