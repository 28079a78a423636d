// tf.train.Example: the protocol-buffer message in which TensorFlow's users store samples (tensorflow/core/example).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace petaflow {

/// One feature: a list of byte strings, of f32 or of 64-bit integers; the other lists are empty.
struct TfFeature {
  std::vector<std::string_view> bytes;  // parts of the message
  std::vector<float> floats;
  std::vector<std::int64_t> integers;
};

/// The features of a serialised Example by name; in a message they stand in any order, lists packed or not.
/// @param where  for errors: "a.tfrecord: record 0"
/// Throws Error(kUser) where the bytes are no such message.
std::map<std::string, TfFeature, std::less<>> parse_tf_example(std::string_view message, const std::string& where);

/// An Example of these features, in order of name, lists of numbers packed; each feature has values in one list.
std::string tf_example(const std::map<std::string, TfFeature, std::less<>>& features);

}  // namespace petaflow
