/* URLs of inputs and outputs: which are taken, how they are shown, where an answer may send on to. */
#include "expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/url.h"

Test(url, takes_files_of_three_protocols)
{
    static const struct {
        const char *url, *wrong; /* words of what is wrong; NULL: nothing */
    } rows[] = {
        { "http://h/x", NULL },
        { "https://h.example.org:8443/a/b?c=d&e=@f", NULL },
        { "ftp://h/pub/file", NULL },
        { "http://[::1]:80/x", NULL },
        { "https://h/a@b", NULL }, /* of the path */
        { "http://h", NULL },
        { "HTTP://h/x", "begin with" },
        { "file:///etc/passwd", "begin with" },
        { "gopher://h/x", "begin with" },
        { "http:/h/x", "begin with" },
        { "http://", "no host" },
        { "http:///x", "no host" },
        { "http://:80/x", "no host" },
        { "http://u:p@h/x", "user or password" },
        { "http://u@h/x", "user or password" },
        { "http://h\\@evil/x", "blank or another" },
        { "http://h/a b", "blank or another" },
        { "http://h/a\nb", "blank or another" },
        { "http://h/\xc3\xa4", "blank or another" },
        { "ftp://h/pub/", "directory" },
        { "ftp://h", "directory" },
        { "ftp://h/x;type=d", "directory" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *wrong = htc__url_wrong(htc_bytes_of(rows[i].url));
        cr_expect(rows[i].wrong ? wrong && strstr(wrong, rows[i].wrong) : !wrong, "%s: %s", rows[i].url, wrong ? wrong : "fine");
    }
    char *longest = malloc(HTC__URL_MAX + 2);
    memset(longest, 'a', HTC__URL_MAX + 1);
    memcpy(longest, "http://h/", 9);
    longest[HTC__URL_MAX] = '\0';
    cr_expect(htc__url_wrong(htc_bytes_of(longest)) == NULL);
    longest[HTC__URL_MAX] = 'a';
    longest[HTC__URL_MAX + 1] = '\0';
    cr_expect(htc__url_wrong(htc_bytes_of(longest)) != NULL);
    free(longest);
    cr_expect(htc__url_is_web(htc_bytes_of("https:x")) && htc__url_is_web(htc_bytes_of("ftp:")) && !htc__url_is_web(htc_bytes_of("file:/x")) && !htc__url_is_web(htc_bytes_of("htt")));
}

Test(url, shows_no_secret)
{
    static const struct {
        const char *url, *shown;
    } rows[] = {
        { "http://h/x", "http://h/x" },
        { "https://ada:s3cret@h:1/x?signature=s3cret#s3cret", "https://h:1/x?..." },
        { "http://ada:s3@cret@h/x", "http://h/x" },
        { "ftp://h/x#s3cret", "ftp://h/x" },
        { "http://h/a\nb\x1b[1m", "http://h/a?b?[1m" },
        { "no url", "no url" },
        { "http://h/a b", "http://h/a b" },
    };
    char out[64], small[12];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        htc__url_show(rows[i].url, out, sizeof out);
        cr_expect(eq(str, out, (char *)(uintptr_t)rows[i].shown));
    }
    htc__url_show("http://host/long/path", small, sizeof small);
    cr_expect(eq(str, small, "http://h..."));
}

Test(url, is_sent_on_within_bounds)
{
    static const struct {
        const char *from, *to;
        unsigned    hops;
        htc_status  status;
    } rows[] = {
        { "http://a/x", "http://b/y", 0, HTC_OK },
        { "http://a/x", "https://b/y", 4, HTC_OK },
        { "https://a/x", "https://a/y", 0, HTC_OK },
        { "https://a/x", "http://a/y", 0, HTC_EDENIED },
        { "http://a/x", "file:///etc/passwd", 0, HTC_EDENIED },
        { "http://a/x", "ftp://a/y", 0, HTC_EDENIED },
        { "http://a/x", "http://u:p@a/y", 0, HTC_EDENIED },
        { "http://a/x", "gopher://a/y", 0, HTC_EDENIED },
        { "http://a/x", "http://b/y", HTC__URL_HOPS, HTC_ETOOBIG },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect(eq(int, htc__url_next(rows[i].from, rows[i].to, rows[i].hops), rows[i].status), "row %zu", i);
}
