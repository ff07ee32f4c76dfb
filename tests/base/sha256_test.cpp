// SHA-256 against the examples of FIPS 180-2, appendix B.
#include "imka/base/sha256.hpp"

#include <gtest/gtest.h>

namespace imka {
namespace {

TEST(Sha256, GivesTheAnswersOfTheStandard) {
    EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, DoesNotDependOnThePieces) {
    const std::string text(1000, 'q');
    for (const std::size_t piece : {1U, 63U, 64U, 65U, 999U}) {
        Sha256 hash;
        for (std::size_t i = 0; i < text.size(); i += piece) hash.update(text.substr(i, piece));
        EXPECT_EQ(hash.hex(), sha256_hex(text)) << piece;
    }
}

}  // namespace
}  // namespace imka
