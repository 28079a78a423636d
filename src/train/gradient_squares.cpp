#include "train/gradient_squares.hpp"

#include <algorithm>

#include "kernels/launch.hpp"
#include "kernels/sum_of_squares.hpp"

namespace petaflow {
namespace {

/// A team for each part, of which it takes what lies in `range`.
struct AddSquares {
  const Slice* parts;
  Slice range;
  const float* gradient;
  double* squares;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const Slice part = parts[team.league_rank()];
    const std::int64_t begin = part.begin < range.begin ? range.begin : part.begin;
    const std::int64_t end = part.end < range.end ? part.end : range.end;
    const double sum = sum_of_squares(team, gradient, begin, end);
    Kokkos::single(Kokkos::PerTeam(team), [&] { squares[team.league_rank()] += sum; });
  }
};

std::vector<Slice> parts_of(const std::vector<Parameter>& parameters) {
  std::vector<Slice> parts;
  for (const Parameter& parameter : parameters) {
    if (!parameter.spec.trained()) continue;
    const std::int64_t end = parameter.offset + parameter.spec.elements();
    for (std::int64_t begin = parameter.offset; begin < end; begin += kSquaresPart) {
      parts.push_back({begin, std::min(begin + kSquaresPart, end)});
    }
  }
  return parts;
}

}  // namespace

GradientSquares::GradientSquares(const Context& context, const std::vector<Parameter>& parameters)
    : context_(context),
      host_parts_(parts_of(parameters)),
      parts_("petaflow::gradient_squares::parts", host_parts_.size()),
      squares_("petaflow::gradient_squares", host_parts_.size()),
      host_squares_(Kokkos::create_mirror_view(squares_)) {
  Kokkos::deep_copy(parts_, Kokkos::View<const Slice*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(host_parts_.data(),
                                                                                                   host_parts_.size()));
}

void GradientSquares::add(const float* gradient, std::int64_t begin, std::int64_t end) {
  const auto first = std::ranges::upper_bound(host_parts_, begin, {}, &Slice::end) - host_parts_.begin();
  const auto last = std::ranges::lower_bound(host_parts_, end, {}, &Slice::begin) - host_parts_.begin();
  if (first >= last) return;
  launch_teams(context_, "petaflow::gradient_squares[kokkos]"_label, last - first, kSquaresTeam,
               AddSquares{parts_.data() + first, {begin, end}, gradient, squares_.data() + first});
}

double GradientSquares::take() {
  context_.space.fence();
  Kokkos::deep_copy(host_squares_, squares_);
  double sum = 0;
  for (std::size_t part = 0; part < host_parts_.size(); ++part) sum += host_squares_(part);
  Kokkos::deep_copy(squares_, 0.0);
  return sum;
}

}  // namespace petaflow
