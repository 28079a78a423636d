// One file of collision events in any of the layouts that hep.hpp names: where its pixels are, and what it says about
// each event.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/augment.hpp"
#include "io/hdf5.hpp"

namespace petaflow {

/// How the files are laid out.
struct HepFileOptions {
  std::string format = "auto";  // "all_events", "sc17", "class_files"; "auto" looks into the first file
  std::int64_t channels = 0;    // taken from the front; 0: all that are there
  bool fewer_channels = false;  // a file with fewer gives those that it has; otherwise it is refused
  std::vector<std::string> channel_names = {"hist", "histEM", "histtrack"};  // all_events: one data set per channel
  std::string suffix = {};                                                   // all_events: "_val" reads images_val, ...
  std::string dataset = {};                                                  // class_files: "gTowerEt"
  std::string signal = {}, background = {};                                  // class_files: patterns of file names
};

/// An event as its file describes it, without its pixels.
struct HepEvent {
  std::int32_t label = -1;  // 1 signal, 0 background, -1 not said
  double weight = 1;        // physics weight: cross section x luminosity / generated; 1 where the file has none
  double loss_weight = 1;   // normweight or normalized_weight; the physics weight where the file has none
  bool pass_sr = false, pass_sr4j = false, pass_sr5j = false;  // the cut selection; sc17 files only know the first
  std::int32_t file = 0;                                       // position in the list of files
  std::int64_t index = 0;                                      // in the file
};

/// Facts about a file while it is closed.
struct HepFile {
  std::string path, format;
  std::vector<std::string> planes;  // data sets: one per channel, or one that holds all of them
  std::vector<std::int64_t> dims;   // of each plane
  std::int64_t chunk_rows = 1;      // of each plane that are stored together
  std::int64_t channels = 1;        // used of `stored_channels`
  std::int64_t stored_channels = 1, height = 0, width = 0, count = 0;
  bool channels_last = false;  // (N, H, W, C)
  bool has_labels = false, has_weights = false, has_norm_weights = false, has_selection = false;
  ImageAxis phi_axis = ImageAxis::kW;
  std::int64_t first = 0;  // number of its first event in the whole set

  /// Floats per event as read: all stored channels of the planes.
  std::int64_t raw_elements() const { return stored_channels * height * width; }
  /// Index of a pixel's first column in what read_raw gave, and the distance to the next column.
  std::int64_t raw_index(std::int64_t n, std::int64_t event, std::int64_t channel, std::int64_t row) const;
  std::int64_t raw_step() const { return channels_last ? stored_channels : 1; }
};

/// Opens a file, validates it, appends its events and closes it.  `labels_needed`: a file without labels is an error.
/// Throws Error(kUser).
HepFile scan_hep_file(const std::string& path, const HepFileOptions& options, bool labels_needed,
                      std::vector<HepEvent>& events);

/// The planes of a file, which stays open for their life.
using OpenHepFile = std::vector<Hdf5Dataset>;
/// Throws Error(kUser) too where the file is not as it was when it was scanned.
OpenHepFile open_planes(const HepFile& file);
/// Events [from, from + n) as stored: planes one after the other, each (n, H, W), (n, C, H, W) or (n, H, W, C).
void read_raw(const OpenHepFile& planes, std::int64_t from, std::int64_t n, std::span<float> raw);

/// From one rank to others: bytes.hpp.
template <class Bytes>
void exchange(Bytes& bytes, HepEvent& e) {
  bytes(e.label, e.weight, e.loss_weight, e.pass_sr, e.pass_sr4j, e.pass_sr5j, e.file, e.index);
}
template <class Bytes>
void exchange(Bytes& bytes, HepFile& f) {
  bytes(f.path, f.format, f.planes, f.dims, f.chunk_rows, f.channels, f.stored_channels, f.height, f.width, f.count,
        f.channels_last, f.has_labels, f.has_weights, f.has_norm_weights, f.has_selection, f.phi_axis, f.first);
}

}  // namespace petaflow
