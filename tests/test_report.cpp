// Texts, pictures, plots and tables of reports, where they can be wrong.
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/html.hpp"
#include "report/metric_json.hpp"
#include "report/page.hpp"
#include "report/plot.hpp"
#include "report/png.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

// ---- Texts ----

TEST(Html, EscapesEveryMarkAndControlCharacters) {
  EXPECT_EQ(html_escape("<b>&\"'é"), "&lt;b&gt;&amp;&quot;&#39;é");
  EXPECT_EQ(html_escape(std::string("a\0\x1b", 3)), "a\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Html, WritesNumbersForPeople) {
  EXPECT_EQ(grouped(1234567.891, 2), "1,234,567.89");
  EXPECT_EQ(grouped(-999.6), "−1,000");
  EXPECT_EQ(grouped(-0.001, 1), "0.0");
  EXPECT_EQ(grouped(NAN), "–");
  EXPECT_EQ(readable(0), "0");
  EXPECT_EQ(readable(0.0312345, 3), "0.0312");
  EXPECT_EQ(readable(1428.5, 2), "1,428");
  EXPECT_EQ(readable(-12.5, 3), "−12.5");
  EXPECT_EQ(readable(1.234e-7, 2), "1.2×10⁻⁷");
  EXPECT_EQ(readable(9.99e-12, 2), "10⁻¹¹");
  EXPECT_EQ(readable(-3e9, 2), "−3×10⁹");
}

TEST(Metric, ShowsAsManyDigitsAsItsErrorAllows) {
  EXPECT_EQ(with_error({0.992961, 0.00123, ""}), "0.9930 ± 0.0012");
  EXPECT_EQ(with_error({0.024793, 0.00064, ""}, 100), "2.479 ± 0.064");
  EXPECT_EQ(with_error({1234.5, 67, ""}), "1,234 ± 67");
  EXPECT_EQ(with_error({0.5, {}, ""}), "0.5");
  EXPECT_EQ(with_error({0.5, 0, ""}), "0.5");
  EXPECT_EQ(with_error({{}, {}, "no events"}), "");
}

TEST(Metric, ComesBackFromJson) {
  nlohmann::json json;
  put(json, "a", {0.5, 0.25, ""});
  put(json, "b", {{}, {}, "no events"});
  EXPECT_EQ(metric_at(json, "a").value, 0.5);
  EXPECT_EQ(metric_at(json, "a").error, 0.25);
  EXPECT_FALSE(metric_at(json, "b").value);
  EXPECT_EQ(metric_at(json, "b").reason, "no events");
  EXPECT_FALSE(metric_at(json, "c").value);
}

// ---- Pictures ----

std::uint32_t word(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<std::uint8_t>(bytes.at(at + i));
  return value;
}

TEST(Png, HasValidChunksAndTheRowsOfThePicture) {
  const std::vector<float> values = {0, 0.5F, 1, -1, 7, NAN};
  const std::string png = heat_png(values, 2, 3);
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::string rows, names;
  for (std::size_t at = 8; at < png.size();) {
    const std::size_t size = word(png, at);
    const std::string body = png.substr(at + 4, size + 4);
    EXPECT_EQ(word(png, at + 8 + size),
              crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
    names += body.substr(0, 4) + " ";
    if (body.starts_with("IHDR")) {
      EXPECT_EQ(word(body, 4), 3U);
      EXPECT_EQ(word(body, 8), 2U);
    }
    if (body.starts_with("IDAT")) rows = body.substr(4);
    at += size + 12;
  }
  EXPECT_EQ(names, "IHDR PLTE IDAT IEND ");
  std::string pixels(64, '\0');
  uLongf length = pixels.size();
  ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(pixels.data()), &length, reinterpret_cast<const Bytef*>(rows.data()),
                       rows.size()),
            Z_OK);
  EXPECT_EQ(pixels.substr(0, length), std::string("\0\0\x40\x7F\0\0\x7F\0", 8));  // a filter byte, then three colours
}

TEST(Png, ShowsClassesInTheirColours) {
  const std::vector<std::uint8_t> classes = {0, 1, 1, 0};
  const std::vector<Colour> colours = {{1, 2, 3}, {250, 251, 252}};
  const std::string png = class_png(classes, 2, 2, colours);
  EXPECT_NE(png.find("PLTE\x01\x02\x03\xFA\xFB\xFC"), std::string::npos);
  EXPECT_NE(png, class_png(std::vector<std::uint8_t>{1, 0, 0, 1}, 2, 2, colours));
  EXPECT_THROW(class_png(std::vector<std::uint8_t>{0, 1, 2, 0}, 2, 2, colours), Error);
}

TEST(Png, Base64IsThatOfRfc4648) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xFF\xFE\xFD"), "//79");
}

TEST(Png, HeatColoursRiseInLightness) {
  double before = -1;
  for (int i = 0; i <= 20; ++i) {
    const Colour c = heat_colour(i / 20.0);
    const double lightness = 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2];
    EXPECT_GT(lightness, before);
    before = lightness;
  }
}

// ---- Plots ----

std::vector<std::string> labels(const std::vector<Tick>& all) {
  std::vector<std::string> result;
  for (const Tick& tick : all) {
    if (!tick.label.empty()) result.push_back(tick.label);
  }
  return result;
}

TEST(Ticks, AreRoundNumbers) {
  EXPECT_EQ(labels(ticks(0, 1, false, false)), (std::vector<std::string>{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
  EXPECT_EQ(labels(ticks(-3, 12, false, false)), (std::vector<std::string>{"0", "5", "10"}));
  EXPECT_EQ(labels(ticks(0.97, 0.985, false, false)), (std::vector<std::string>{"0.970", "0.975", "0.980", "0.985"}));
  EXPECT_EQ(labels(ticks(1, 3, false, true)), (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_EQ(labels(ticks(0, 12000, false, false)), (std::vector<std::string>{"0", "5,000", "10,000"}));
}

TEST(Ticks, OfLogarithmicAxesAreDecades) {
  EXPECT_EQ(labels(ticks(0.001, 1, true, false)), (std::vector<std::string>{"0.001", "0.01", "0.1", "1"}));
  EXPECT_EQ(labels(ticks(1, 20, true, false)), (std::vector<std::string>{"1", "2", "5", "10", "20"}));
  EXPECT_EQ(labels(ticks(1e-12, 1, true, false)),
            (std::vector<std::string>{"10⁻¹²", "10⁻¹⁰", "10⁻⁸", "10⁻⁶", "10⁻⁴", "10⁻²", "1"}));
  EXPECT_EQ(ticks(1, 100, true, false).size(), 19U);
}

TEST(Plot, BreaksLinesAtWhatCannotBeDrawn) {
  Plot plot({"x"}, {"y", true});
  const std::vector<double> x = {0, 1, 2, 3, 4}, y = {1, 10, 0, NAN, 100};
  plot.line(x, y, "s1", "<&>");
  const std::string svg = plot.svg("a \"plot\"");
  EXPECT_HOLDS(svg, "aria-label=\"a 'plot'\"");
  const std::size_t path = svg.find("class=\"line s1\"");
  ASSERT_NE(path, std::string::npos);
  const std::string d = svg.substr(path, svg.find("/>", path) - path);
  EXPECT_EQ(std::count(d.begin(), d.end(), 'M'), 2);
  EXPECT_EQ(std::count(d.begin(), d.end(), 'L'), 1);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_HOLDS(figure(plot, ""), "&lt;&amp;&gt;");
}

TEST(Plot, ThinsLongLinesButKeepsTheirExtremes) {
  std::vector<double> x(100'000), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i), y[i] = 0.5;
  y[77'777] = 1;
  Plot thinned({"x"}, {"y", false, 0.0, 1.0});
  thinned.line(x, y, "s1", "");
  const std::string svg = thinned.svg("");
  EXPECT_LT(svg.size(), 30'000U);
  EXPECT_HOLDS(svg, " 26.0L");  // the top of the axes
}

/// The numbers of an attribute of all elements of a class.
std::vector<double> attributes(const std::string& svg, const std::string& element, const std::string& name) {
  std::vector<double> values;
  for (std::size_t at = svg.find(element); at != std::string::npos; at = svg.find(element, at + 1)) {
    const std::size_t value = svg.find(name + "=\"", at) + name.size() + 2;
    values.push_back(std::stod(svg.substr(value, svg.find('"', value) - value)));
  }
  return values;
}

TEST(Plot, AConstantLineIsNotOnTheFloor) {
  Plot plot({"step"}, {"learning rate", false, 0.0});
  plot.line(std::vector<double>{10, 20, 30}, std::vector<double>{0.001, 0.001, 0.001}, "s1", "");
  const std::string svg = plot.svg("");
  EXPECT_HOLDS(svg, ">0.0010</text>");
  for (const double y : attributes(svg, "<circle", "cy")) EXPECT_LT(y, 150);  // the floor is at 260
}

TEST(Plot, ShortLinesShowTheirPoints) {
  Plot few({"x"}, {"y"}), many({"x"}, {"y"});
  std::vector<double> x(50);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
  few.line(std::span(x).first(3), std::span(x).first(3), "s1", "");
  many.line(x, x, "s1", "");
  EXPECT_EQ(attributes(few.svg(""), "<circle", "cy").size(), 3U);
  EXPECT_EQ(attributes(many.svg(""), "<circle", "cy").size(), 0U);
}

TEST(Plot, NotesOfRulesStandAboveHistograms) {
  for (const bool log : {false, true}) {
    Plot plot({"score"}, {"events", log});
    plot.histogram(std::vector<double>{0, 0.5, 1}, std::vector<double>{1, 10}, "s1", "");
    plot.rule_x(0.6, "threshold");
    const std::string svg = plot.svg("");
    const std::string column = svg.substr(svg.find("class=\"area"));
    double top = 1000;
    for (std::size_t at = column.find('V'); at < column.find("/>"); at = column.find('V', at + 1)) {
      top = std::min(top, std::stod(column.substr(at + 1)));
    }
    EXPECT_GT(top, attributes(svg, "class=\"note\"", "y").at(0) + 3);
  }
}

TEST(Plot, ManyDotsAreSmall) {
  std::vector<double> x(1000);
  Plot few({"x"}, {"y"}), many({"x"}, {"y"});
  few.points(std::span(x).first(3), std::span(x).first(3), "s1", "");
  many.points(x, x, "s1", "");
  EXPECT_HOLDS(few.svg(""), "class=\"dot s1\"");
  EXPECT_HOLDS(many.svg(""), "class=\"dot s1 small\"");
}

TEST(Plot, StandsWithoutAnyPoint) {
  Plot plot({"x", true}, {"y"});
  plot.line({}, {}, "s1", "nothing");
  EXPECT_EQ(plot.svg("").find("nan"), std::string::npos);
}

TEST(Page, TablesWithoutHeadHaveNone) {
  EXPECT_EQ(table({{"", ""}, {"a", "b"}}, "").find("<thead>"), std::string::npos);
  EXPECT_HOLDS(table({{"", "head"}, {"a", "b"}}, ""), "<thead>");
}

}  // namespace
}  // namespace petaflow
