// Optimizers in f64, one tensor after the other, from the formulas as they are published.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "nn/network.hpp"
#include "update/optimizer_options.hpp"

namespace petaflow::testing_support {

/// The rules of torch's optimizers, with clip_grad_norm_ and LARC (Apex) before them; LAMB of You et al. 2020
/// (algorithm 2), LARS of You et al. 2017 (equation 6).
class OptimizerReplay {
 public:
  OptimizerReplay(const OptimizerOptions& options, const std::vector<Parameter>& parameters,
                  const std::vector<float>& weights)
      : o_(options), parameters_(parameters), w(weights.begin(), weights.end()), m_(w.size()), v_(w.size()) {}

  void step(double rate, const std::vector<float>& gradient) {
    t_ += 1;
    std::vector<double> g(gradient.begin(), gradient.end());
    double all = 0;
    for (const Parameter& p : parameters_) all += p.spec.trained() ? std::pow(norm(g, p), 2) : 0;
    const double clip = o_.clip_norm > 0 && std::sqrt(all) > o_.clip_norm ? o_.clip_norm / std::sqrt(all) : 1;
    for (double& value : g) value *= clip;
    for (const Parameter& p : parameters_) {
      if (p.spec.trained()) {
        move(p, rate, g);
        continue;
      }
      for (std::size_t i = begin(p); i < end(p); ++i) {
        w[i] += p.spec.running_momentum * (static_cast<double>(gradient[i]) - w[i]);
      }
    }
  }

 private:
  static std::size_t begin(const Parameter& p) { return static_cast<std::size_t>(p.offset); }
  static std::size_t end(const Parameter& p) { return begin(p) + static_cast<std::size_t>(p.spec.elements()); }

  static bool in_scope(ArrayScope scope, const Parameter& p) { return scope == ArrayScope::kAll || p.spec.decays; }

  static double norm(const std::vector<double>& values, const Parameter& p) {
    double sum = 0;
    for (std::size_t i = begin(p); i < end(p); ++i) sum += values[i] * values[i];
    return std::sqrt(sum);
  }

  /// What multiplies g + decay w of a tensor before the rule.
  double trust(const Parameter& p, double rate, double decay, const std::vector<double>& g) {
    if (o_.larc == 0 || !in_scope(o_.trust_scope, p)) return 1;
    const double wn = norm(w, p), gn = norm(g, p), none = 1.0 / 16000, ranks = o_.ranks;
    const bool some = wn > 0 && gn > 0;
    switch (o_.larc_form) {
      case TrustForm::kLars:
        return some ? o_.larc * wn / (gn + decay * wn) : 1;
      case TrustForm::kCosmoFlow:
        return std::min(some ? o_.larc * wn / (gn + decay * wn) : none, 1.0);
      case TrustForm::kSc18:
        // Gradients here are means over ranks; that code took the norm of the sum, and divided.
        return some ? std::min(o_.larc / ranks * wn / (ranks * gn + ranks * decay * wn), 1.0) : none / (ranks * ranks);
      case TrustForm::kLarc:
        break;
    }
    return std::min(some ? o_.larc * wn / (gn + decay * wn) : none, rate) / rate;
  }

  void move(const Parameter& p, double rate, const std::vector<double>& g) {
    const bool adam = o_.name == "adam", adamw = o_.name == "adamw", lamb = o_.name == "lamb";
    const double decay = in_scope(o_.decay_scope, p) ? o_.weight_decay : 0, l2 = adamw || lamb ? 0 : decay;
    const double factor = trust(p, rate, l2, g);
    clipped_by_larc += factor < 1;
    let_through += factor == 1;
    std::vector<double> update(w.size());
    for (std::size_t i = begin(p); i < end(p); ++i) {
      const double d = (g[i] + l2 * w[i]) * factor;
      if (!adam && !adamw && !lamb) {
        m_[i] = o_.momentum * m_[i] + d;
        update[i] = o_.nesterov ? d + o_.momentum * m_[i] : m_[i];
        continue;
      }
      m_[i] = o_.beta1 * m_[i] + (1 - o_.beta1) * d;
      v_[i] = o_.beta2 * v_[i] + (1 - o_.beta2) * d * d;
      const double m = m_[i] / (1 - std::pow(o_.beta1, t_)), v = v_[i] / (1 - std::pow(o_.beta2, t_));
      update[i] = m / (std::sqrt(v) + o_.epsilon) + (adam ? 0 : decay * w[i]);
    }
    const double wn = norm(w, p), un = norm(update, p);
    const double ratio = lamb && in_scope(o_.trust_scope, p) && wn > 0 && un > 0 ? wn / un : 1;
    for (std::size_t i = begin(p); i < end(p); ++i) w[i] -= rate * ratio * update[i];
  }

  const OptimizerOptions o_;
  const std::vector<Parameter> parameters_;

 public:
  std::vector<double> w;
  int clipped_by_larc = 0, let_through = 0;

 private:
  int t_ = 0;
  std::vector<double> m_, v_;
};

}  // namespace petaflow::testing_support
