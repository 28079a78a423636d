// Names of kernels and regions, made once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace petaflow {

/// The characters of a literal as an argument of a template.
template <std::size_t kSize>
struct LabelText {
  char text[kSize];
  consteval LabelText(const char (&literal)[kSize]) { std::copy_n(literal, kSize, text); }
};

/// "petaflow::conv::refresh[kokkos]"_label: Kokkos takes std::string, and one made for each launch would ask for
/// memory in every step.
template <LabelText kText>
const std::string& operator""_label() {
  static const std::string label(kText.text);
  return label;
}

}  // namespace petaflow
