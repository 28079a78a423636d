// Texts for HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace petaflow {

/// The text with & < > " ' as entities and control characters as U+FFFD: safe as content and in quoted attributes.
std::string html_escape(std::string_view text);

/// "12,345.6": thousands are grouped; as many decimals as say.
std::string grouped(double value, int decimals = 0);

/// A number for people with so many significant digits, without an exponent between 1e-4 and 1e6: "0.00123",
/// "1.2×10⁻⁷".
std::string readable(double value, int digits = 4);

/// "10⁻⁷" of -7, "1" of 0.
std::string power_of_ten(int exponent);

}  // namespace petaflow
