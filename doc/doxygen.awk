# What Doxygen is given in place of a header, line for line: the table of statuses as the enumerators that it makes, and no '#' in
# "doc/papers.md#ring", which Doxygen takes for a link of its own.
/^ +X\(HTC_/ {
    line = $0
    sub(/^ +X\(/, "", line)
    sub(/"\) *\\?$/, "", line)
    split(line, part, /, "?/)
    text = line
    sub(/^[^"]*"/, "", text)
    statuses = statuses part[1] " = " part[2] ", /**< " text "; exit code " part[3] " */ "
}
/^typedef enum htc_status / { $0 = "typedef enum htc_status { " statuses "} htc_status;" }
{
    sub(/papers\.md#/, "papers.md, ")
    print
}
