#include "encoding.hpp"

#include "boundary.hpp"

namespace eigentree {
namespace {

template <class Code>
void hash_rows(In<Code, 2> codes, Out<std::uint64_t> hashes) {
  check(hashes.shape(0) == codes.shape(1), "one hash per row");
  const auto loop = [&] {
    if constexpr (sizeof(Code) == 1)
      return encoding_loops().hash_rows_8;
    else
      return encoding_loops().hash_rows_16;
  }();
  nb::gil_scoped_release release;
  loop(codes.data(), std::int64_t(codes.shape(0)), std::int64_t(codes.shape(1)), hashes.data());
}

}  // namespace

void bind_encoding(nb::module_& m) {
  m.def("hash_rows", hash_rows<std::uint8_t>, given("codes"), given("hashes"));
  m.def("hash_rows", hash_rows<std::uint16_t>, given("codes"), given("hashes"));
}

}  // namespace eigentree
