// The azimuth phi in the images: where it runs, and what training may change along it.
#pragma once

#include <string>

#include "hep/options.hpp"

namespace petaflow::hep {

/// Where phi runs in the images, as data.phi_axis has it.
inline std::string phi_axis(const HepData& data) { return data.phi_axis() == ImageAxis::kW ? "columns" : "rows"; }

/// Throws a user error where phi does not run in the set `what` as in the training set, or as the network needs it.
inline void check_phi_axis(const Options& options, const HepData& data, const std::string& what) {
  const std::string axis = phi_axis(data), &expected = options.data.phi_axis;
  if (!expected.empty() && axis != expected) {
    user_error("{}: phi runs along the {} of the images in {}, but along the {} in the training set", what, axis,
               data.files().front(), expected);
  }
  if (options.model.periodic_width && axis != "columns") {
    user_error("model.periodic_width closes the images in their width, but phi runs along the {} in {}", axis,
               data.files().front());
  }
}

/// Changes to training samples; empty: none.
inline Augmentation augmentation(AugmentOptions augment, const HepData& train) {
  if (!augment.roll_phi && !augment.flip_phi && !augment.mirror_eta && augment.energy_jitter == 0) return {};
  augment.phi = train.phi_axis();
  if (augment.roll_phi && !train.phi_is_whole()) {
    user_error("augment.roll_phi needs images of the whole circle in phi, but data.crop cuts it");
  }
  return DetectorAugment(train.sample_dims(), augment);
}

}  // namespace petaflow::hep
