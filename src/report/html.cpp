#include "report/html.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace petaflow {
namespace {

/// "⁻⁷" of -7.
std::string superscript(int number) {
  static const char* const digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text;
  for (const char c : std::to_string(number)) text += c == '-' ? "⁻" : digits[c - '0'];
  return text;
}

}  // namespace

std::string html_escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
          escaped += "\xEF\xBF\xBD";
        } else {
          escaped += c;
        }
    }
  }
  return escaped;
}

std::string grouped(double value, int decimals) {
  if (!std::isfinite(value)) return "–";
  std::string text = fmt::format("{:.{}f}", std::abs(value), decimals);
  const std::size_t point = text.find('.');
  const std::size_t whole = point == std::string::npos ? text.size() : point;
  for (std::size_t at = whole; at > 3; at -= 3) text.insert(at - 3, ",");
  const bool is_zero = text.find_first_not_of("0.,") == std::string::npos;
  return value < 0 && !is_zero ? "−" + text : text;
}

std::string readable(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-4 || size >= 1e6)) {
    int exponent = static_cast<int>(std::floor(std::log10(size)));
    std::string mantissa = fmt::format("{:.{}g}", value / std::pow(10.0, exponent), digits);
    if (mantissa == "10" || mantissa == "-10") {
      mantissa.pop_back();
      ++exponent;
    }
    std::string power = power_of_ten(exponent);
    if (mantissa == "1") return power;
    if (mantissa[0] == '-') mantissa = "−" + mantissa.substr(1);
    return mantissa + "×" + power;
  }
  const int whole = size == 0 ? 1 : static_cast<int>(std::floor(std::log10(size))) + 1;
  std::string text = grouped(value, std::max(0, digits - whole));
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

std::string power_of_ten(int exponent) { return exponent == 0 ? "1" : "10" + superscript(exponent); }

}  // namespace petaflow
