#include "encoding.hpp"

#include <vector>

#include "code_arrays.hpp"

namespace eigentree {
namespace {

CellType cell_type(nb::dlpack::dtype type) {
  using nb::dlpack::dtype_code;
  const std::uint8_t codes[] = {std::uint8_t(dtype_code::Int), std::uint8_t(dtype_code::UInt),
                                std::uint8_t(dtype_code::Float)};
  const nb::dlpack::dtype types[] = {{codes[0], 8, 1},  {codes[0], 16, 1}, {codes[0], 32, 1}, {codes[0], 64, 1},
                                     {codes[1], 8, 1},  {codes[1], 16, 1}, {codes[1], 32, 1}, {codes[1], 64, 1},
                                     {codes[2], 32, 1}, {codes[2], 64, 1}};
  for (int k = 0; k < cell_types; ++k)
    if (type == types[k]) return CellType(k);
  throw nb::type_error("eigentree.core: cells are whole numbers of 8 to 64 bits, or floats of 32 or 64");
}

// The code of a missing cell has to fit too.
void check_states(std::int64_t states, int type) {
  check(states >= 1 && states < std::int64_t(1) << (8 << type), "states from 1 on that the type of codes holds");
}

// The cells of a column may lie apart.
std::int64_t encode_column(Aligned<nb::ndarray<nb::ro, nb::ndim<1>, nb::device::cpu>> cells, std::int64_t states,
                           OutAny<1> codes) {
  const int type = code_type(codes);
  check(codes.shape(0) == cells.shape(0), "one code per cell");
  check_states(states, type);
  const auto loop = encoding_loops().cells[cell_type(cells.dtype())].encode_column[type];
  nb::gil_scoped_release release;
  return loop(cells.data(), cells.stride(0), std::int64_t(cells.shape(0)), states, codes.data());
}

void encode_rows(InAny<2> cells, std::int64_t start, In<std::int64_t> states, OutAny<2> codes, Out<bool> wrong) {
  const int type = code_type(codes);
  const auto all_rows = std::int64_t(cells.shape(0)), columns = std::int64_t(cells.shape(1));
  const auto rows = std::int64_t(codes.shape(1));
  check(start >= 0 && rows <= all_rows && start <= all_rows - rows, "rows that are there");
  check(std::int64_t(codes.shape(0)) == columns && std::int64_t(states.shape(0)) == columns &&
            std::int64_t(wrong.shape(0)) == columns,
        "one number of states, one line of codes and one flag per column");
  for (std::int64_t j = 0; j < columns; ++j) check_states(states.data()[j], type);
  const auto loop = encoding_loops().cells[cell_type(cells.dtype())].encode_rows[type];
  if (!loop) throw nb::type_error("eigentree.core: rows of cells are whole numbers");
  if (columns == 0) return;  // However many rows, which then take no memory.
  std::vector<std::uint64_t> limits(columns * run_rows), beyond(columns * run_rows);
  std::vector<std::uint32_t> missing(columns * run_rows), tile(columns * tile_rows);
  const auto first =
      static_cast<const std::uint8_t*>(cells.data()) + start * columns * std::int64_t(cells.itemsize());
  nb::gil_scoped_release release;
  loop(first, columns, rows, states.data(), {limits.data(), beyond.data(), missing.data(), tile.data()},
       codes.data(), wrong.data());
}

void hash_rows(InAny<2> codes, Out<std::uint64_t> hashes) {
  check(hashes.shape(0) == codes.shape(1), "one hash per row");
  const auto loop = encoding_loops().hash_rows[code_type(codes)];
  nb::gil_scoped_release release;
  loop(codes.data(), std::int64_t(codes.shape(0)), std::int64_t(codes.shape(1)), hashes.data());
}

}  // namespace

void bind_encoding(nb::module_& m) {
  m.def("encode_column", encode_column, given("cells"), given("states"), given("codes"));
  m.def("encode_rows", encode_rows, given("cells"), given("start"), given("states"), given("codes"),
        given("wrong"));
  m.def("hash_rows", hash_rows, given("codes"), given("hashes"));
}

}  // namespace eigentree
