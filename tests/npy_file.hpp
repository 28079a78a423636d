// Files of NumPy for tests.
#pragma once

#include <fstream>
#include <string>
#include <vector>

namespace petaflow::test {

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline void write_npy(const std::string& path, const std::string& type, const std::string& shape,
                      const std::string& elements, bool fortran = false) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }";
  header.resize(118, ' ');
  std::ofstream(path, std::ios::binary) << "\x93NUMPY" << '\x01' << '\0' << static_cast<char>(header.size()) << '\0'
                                        << header << elements;
}

}  // namespace petaflow::test
