#!/bin/bash
#SBATCH --job-name=ring
#SBATCH --nodes=2 --ntasks-per-node=2
#SBATCH --output=ring.out
mpirun ./ring
