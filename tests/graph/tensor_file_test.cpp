// Tensors in NPY files.
#include "imka/graph/tensor_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <vector>

#include "imka/io/npy.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Value input_of(DType type) {
    return {.name = "tokens", .type = {.type = type}};
}

TEST(TensorFile, TypesSurviveTheFile) {
    const TempDir dir;
    for (std::size_t t = 0; t < std::size(EnumNames<DType>::values); ++t) {
        const auto type = static_cast<DType>(t);
        Tensor tensor(type, {2, 1, 3});
        visit_dtype(type, [&](auto zero) {
            using T = decltype(zero);
            for (std::size_t i = 0; i < 6; ++i) tensor.values<T>()[i] = converted<T>(1.5 * double(i) - 3.0);
        });
        write_tensor(dir / "x.npy", tensor);
        EXPECT_EQ(read_tensor(dir / "x.npy", input_of(type)), tensor) << to_string(type);
    }
    const auto scalar = make_tensor<double>({}, std::vector{0.1});
    write_tensor(dir / "scalar.npy", scalar);
    EXPECT_EQ(read_tensor(dir / "scalar.npy", input_of(DType::f64)), scalar);
}

TEST(TensorFile, SmallFloatsAreWrittenAsFloat32) {
    const TempDir dir;
    write_tensor(dir / "h.npy", make_tensor<Half>({2}, std::vector{Half{0x3C00}, Half{0xC100}}));
    write_tensor(dir / "b.npy", make_tensor<BFloat16>({2}, std::vector{BFloat16{0x3F80}, BFloat16{0xC020}}));
    const auto expected = make_tensor<float>({2}, std::vector{1.0F, -2.5F});
    for (const auto* file : {"h.npy", "b.npy"}) {
        EXPECT_EQ(read_npy_array(dir / file).type, "f4");
        EXPECT_EQ(read_tensor(dir / file, input_of(DType::f32)), expected);
    }
}

TEST(TensorFile, NumbersBecomeTheTypeOfTheInput) {
    const TempDir dir;
    const auto path = dir / "x.npy";
    write_tensor(path, make_tensor<std::int64_t>({3}, std::vector<std::int64_t>{-1, 0, 7}));
    EXPECT_THAT(read_tensor(path, input_of(DType::f32)).values<float>(), ElementsAre(-1.0F, 0.0F, 7.0F));
    EXPECT_THAT(read_tensor(path, input_of(DType::i32)).values<std::int32_t>(), ElementsAre(-1, 0, 7));
    EXPECT_THAT(read_tensor(path, input_of(DType::bool_)).values<bool>(), ElementsAre(true, false, true));
    write_tensor(path, make_tensor<double>({2}, std::vector{0.5, 1e300}));
    EXPECT_EQ(read_tensor(path, input_of(DType::f16)).values<Half>()[0].bits, 0x3800);
}

TEST(TensorFile, AnyByteOtherThanZeroIsTrue) {
    const TempDir dir;
    write_npy_array(dir / "b.npy", {.type = "b1", .shape = {3}, .bytes = {0, 1, 2}});
    EXPECT_THAT(read_tensor(dir / "b.npy", input_of(DType::bool_)).bytes,
                ElementsAre(std::byte{0}, std::byte{1}, std::byte{1}));
}

TEST(TensorFile, FloatsDoNotBecomeIntegers) {
    const TempDir dir;
    const auto path = dir / "x.npy";
    write_tensor(path, make_tensor<float>({2}, std::vector{1.0F, 2.0F}));
    for (const auto type : {DType::i64, DType::u8, DType::bool_})
        EXPECT_THAT(error_of([&] { read_tensor(path, input_of(type)); }),
                    testing::AllOf(HasSubstr("bad_data: "), HasSubstr("x.npy: contains f32 values"),
                                   HasSubstr("'tokens'")));
}

TEST(TensorFile, RefusesOtherFiles) {
    const TempDir dir;
    std::ofstream(dir / "x.npy") << "not an array";
    EXPECT_THAT(error_of([&] { read_tensor(dir / "x.npy", input_of(DType::f32)); }),
                HasSubstr("is not an NPY file"));
    EXPECT_THAT(error_of([&] { read_tensor(dir / "nowhere.npy", input_of(DType::f32)); }),
                HasSubstr("nowhere.npy"));
}

}  // namespace
}  // namespace imka::graph
