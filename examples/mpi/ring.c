/* A number goes round all processes of an MPI program, each adds its rank, and the first says what came back and where everybody is. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

#define NODE 64 /* bytes of a node's name that are told */

int main(int argc, char **argv)
{
    int  rank, size, sum = 0, code = 0;
    char node[NODE] = "", line[2 * NODE];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gethostname(node, sizeof node - 1);
    if (rank > 0)
        MPI_Recv(&sum, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    sum += rank;
    if (size > 1)
        MPI_Send(&sum, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    if (rank > 0) {
        snprintf(line, sizeof line, "%d of %d, on %s", rank, size, node);
        MPI_Send(line, (int)sizeof line, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    } else {
        if (size > 1)
            MPI_Recv(&sum, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("0 of %d, on %s\n", size, node);
        for (int i = 1; i < size; i++) {
            MPI_Recv(line, (int)sizeof line, MPI_CHAR, i, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            printf("%s\n", line);
        }
        printf("sum %d\n", sum);
        code = sum != size * (size - 1) / 2;
    }
    MPI_Finalize();
    return code;
}
