#include "scaling/published.hpp"
#include <cstdio>
namespace petaflow::scaling {
void print_published(const std::string& inputs) { std::printf("%s\n", inputs.c_str()); }
}  // namespace petaflow::scaling
