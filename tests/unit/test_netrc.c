/* Files of users and passwords: which are taken. */
#include "expect.h"
#include <stdlib.h>
#include <string.h>

#include "core/netrc.h"

Test(netrc, what_is_taken)
{
    static const char *const fine[] = {
        "machine a.example login ada password x",
        "machine a login ada password x\nmachine b login bob\n\tpassword y account z\n",
        "# of my own\nmachine a login ada password \"two words \\\" #\"\n",
        "default login anonymous password x\r\n",
        "machine a",
        "machine a password login login password", /* values are any words */
    };
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        cr_expect(htc__netrc_wrong(htc_bytes_of(fine[i])) == NULL, "%s: %s", fine[i], htc__netrc_wrong(htc_bytes_of(fine[i])));
}

Test(netrc, what_is_refused)
{
    static const char *const wrong[] = {
        "", "\n", "# nothing", "login ada password x", "machine", "machine a login", "machine a user ada", "machine a password \"x", "machine a macdef init\nput x\n\n",
        "machine a\001 login b", "machine a login b\033 password c", "machine a login \"b\\\"",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect(htc__netrc_wrong(htc_bytes_of(wrong[i])) != NULL, "%s", wrong[i]);
    char *none = malloc(5000);
    memset(none, ' ', 5000);
    memcpy(none, "machine a", 9);
    cr_expect(htc__netrc_wrong((htc_bytes){ none, HTC__NETRC_MAX }) == NULL);
    cr_expect(htc__netrc_wrong((htc_bytes){ none, HTC__NETRC_MAX + 1 }) != NULL);
    none[100] = '\0';
    cr_expect(htc__netrc_wrong((htc_bytes){ none, 200 }) != NULL);
    cr_expect(htc__netrc_wrong((htc_bytes){ NULL, 0 }) != NULL);
    free(none);
}
