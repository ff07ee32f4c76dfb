# Writes OUT, a C++ source that holds the bytes of IN as imka::embedded::SYMBOL.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
file(WRITE ${OUT} "#include <string_view>
namespace imka::embedded {
static const char bytes[] = {${bytes}'\\0'};
extern const std::string_view ${SYMBOL};
const std::string_view ${SYMBOL}{bytes, sizeof(bytes) - 1};
}  // namespace imka::embedded
")
