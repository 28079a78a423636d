#include "report/page.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "report/html.hpp"
#include "report/png.hpp"

namespace petaflow {
namespace {

// Two palettes of the same roles; print takes the light one.  Series colours keep apart for the colour-blind.
constexpr const char* kStyle = R"css(
:root {
  color-scheme: light dark;
  --paper: #fdfcf9; --ink: #1c1e22; --soft: #5b6069; --hair: #e4e1da; --panel: #f6f4ee;
  --s1: #2563a8; --s2: #c2571a; --s3: #3a7d44; --s4: #8a4b9c; --s5: #b08300; --s6: #0f7f8c; --s7: #b2335a; --s8: #6b6b6b;
  --signal: #c2401f; --background: #3569a8;
  --serif: Charter, "Bitstream Charter", "Sitka Text", Cambria, "Source Serif 4", "Liberation Serif", Georgia, serif;
  --sans: Inter, "Helvetica Neue", Helvetica, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif;
  --mono: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #15171b; --ink: #e6e4de; --soft: #9ba0a9; --hair: #2d3138; --panel: #1c1f24;
    --s1: #72aaea; --s2: #f0935a; --s3: #79bf85; --s4: #c490d6; --s5: #dcb54a; --s6: #5cc0cc; --s7: #ee7fa1; --s8: #a9a9a9;
    --signal: #f5825f; --background: #76abe8;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.5 var(--serif); }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; counter-reset: figure table; }
h1 { font-size: 2rem; line-height: 1.15; font-weight: 600; margin: 0 0 .4rem; overflow-wrap: anywhere; letter-spacing: -.01em; }
h2 { font-size: 1.3rem; line-height: 1.25; font-weight: 600; margin: 3rem 0 1rem; padding-top: .9rem; border-top: 1px solid var(--soft); }
h3 { font-size: 1.02rem; font-weight: 600; margin: 2rem 0 .6rem; }
p { max-width: 44rem; margin: 0 0 1rem; }
.subtitle { color: var(--soft); margin: 0; max-width: none; overflow-wrap: anywhere; }
.keys { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.2rem, 1fr)); gap: 1.2rem 1.6rem; margin: 1.8rem 0 0; }
.keys div { border-top: 1px solid var(--hair); padding-top: .55rem; }
.keys dt { font: .78rem/1.3 var(--sans); color: var(--soft); }
.keys dd { margin: 0; font: 500 1.65rem/1.25 var(--sans); font-variant-numeric: tabular-nums; letter-spacing: -.02em; }
.keys dd + dd { font: .78rem/1.35 var(--sans); color: var(--soft); letter-spacing: 0; }
.side { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: 2rem 2.2rem; margin: 1rem 0 1.6rem; }
.side.small { grid-template-columns: repeat(auto-fit, minmax(min(100%, 17.5rem), 1fr)); gap: 1.4rem 1.6rem; align-items: end; }
.side.small.four { grid-template-columns: repeat(auto-fit, minmax(min(100%, 13rem), 1fr)); }
.side.four > div { max-width: 17rem; }
figure { margin: 0; min-width: 0; break-inside: avoid; }
.side > figure > svg { max-width: 34rem; }
figcaption, .caption { font-size: .88rem; line-height: 1.42; color: var(--soft); max-width: 34rem; }
figcaption { margin-top: .35rem; }
figcaption::before { counter-increment: figure; content: "Figure " counter(figure) ". "; color: var(--ink); font-weight: 600; }
.wide figcaption { max-width: 44rem; }
svg { display: block; width: 100%; height: auto; overflow: visible; font: 12.5px var(--sans); }
svg svg { overflow: hidden; }
.grid { stroke: var(--hair); stroke-width: .8; fill: none; }
.axis { stroke: var(--soft); stroke-width: 1; fill: none; }
.tick, .note { fill: var(--soft); font-variant-numeric: tabular-nums; }
.note { font-size: 11.5px; }
.label { fill: var(--ink); }
.line { fill: none; stroke: currentColor; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.line.faint { stroke-width: 1; opacity: .32; }
.line.dashed { stroke-dasharray: 5 4; stroke-width: 1.5; }
.area { fill: currentColor; opacity: .17; }
.dot { fill: currentColor; stroke: var(--paper); stroke-width: 1; }
.dot.small { stroke: none; opacity: .45; }
.rule { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 2 3; fill: none; }
image { image-rendering: pixelated; }
.s1 { color: var(--s1); } .s2 { color: var(--s2); } .s3 { color: var(--s3); } .s4 { color: var(--s4); }
.s5 { color: var(--s5); } .s6 { color: var(--s6); } .s7 { color: var(--s7); } .s8 { color: var(--s8); }
.signal { color: var(--signal); } .background { color: var(--background); } .ink { color: var(--ink); } .soft { color: var(--soft); }
.legend { display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; margin: 0 0 .35rem; padding: 0; list-style: none; font: .82rem/1.5 var(--sans); }
.legend li { display: inline-flex; align-items: center; gap: .42rem; overflow-wrap: anywhere; }
.legend svg { width: 20px; height: 12px; flex: none; }
.legend b { font-weight: 400; color: var(--ink); }
.panel { font: .82rem/1.4 var(--sans); margin-bottom: .1rem; }
.scale { display: flex; align-items: center; gap: .6rem; font: .8rem var(--sans); color: var(--soft); margin: .2rem 0 1rem; max-width: 30rem; }
.scale i { flex: 1; height: .6rem; border-radius: 2px; }
.scroll { overflow-x: auto; margin: 0 0 1.8rem; }
table { border-collapse: collapse; font: .86rem/1.4 var(--sans); font-variant-numeric: tabular-nums; min-width: 50%; }
table.full { width: 100%; }
.caption { max-width: 44rem; margin: 1.6rem 0 .55rem; break-after: avoid; }
.caption::before { counter-increment: table; content: "Table " counter(table) ". "; color: var(--ink); font-weight: 600; }
th, td { padding: .3rem .55rem; text-align: right; vertical-align: baseline; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
thead th { font-weight: 600; border-bottom: 1px solid var(--ink); border-top: 1.5px solid var(--ink); vertical-align: bottom; }
tbody th { font-weight: 400; white-space: normal; min-width: 8.5rem; }
tbody th small { display: block; font-size: .78rem; color: var(--soft); }
tbody:first-child tr:first-child > * { border-top: 1.5px solid var(--ink); }
tbody tr + tr > * { border-top: 1px solid var(--hair); }
tbody tr:last-child > * { border-bottom: 1.5px solid var(--ink); }
table.sum tbody tr:last-child > * { font-weight: 600; border-top: 1px solid var(--ink); }
table.text td, table.text th { text-align: left; }
table.text td { white-space: normal; overflow-wrap: anywhere; }
table.text tbody th { color: var(--soft); white-space: nowrap; min-width: 0; }
.bar { display: flex; height: 1.7rem; margin: .2rem 0 .9rem; border-radius: 3px; overflow: hidden; gap: 1.5px; }
.bar span { background: currentColor; min-width: 1px; }
.bar span b { display: block; color: var(--paper); font: 600 .74rem/1.7rem var(--sans); text-align: center; overflow: hidden; white-space: nowrap; }
.bar-name { font: .84rem var(--sans); overflow-wrap: anywhere; }
pre { font: .76rem/1.55 var(--mono); margin: 0; background: var(--panel); padding: 1rem 1.1rem; border-radius: 4px; white-space: pre-wrap; overflow-wrap: anywhere; columns: 22rem; column-gap: 2rem; }
code { font: .86em var(--mono); overflow-wrap: anywhere; }
footer { margin-top: 3rem; padding-top: .8rem; border-top: 1px solid var(--hair); color: var(--soft); font-size: .85rem; }
@media (max-width: 34rem) {
  main { padding: 1.6rem 1rem 3rem; }
  h1 { font-size: 1.6rem; }
  .keys { grid-template-columns: 1fr 1fr; gap: .9rem 1.2rem; }
  .keys dd { font-size: 1.4rem; }
  svg { font-size: 13.5px; }
  .side.small, .side.small.four { grid-template-columns: 1fr 1fr; gap: 1rem .8rem; }
  .side.small svg { font-size: 20px; }
  .side.small.four svg { font-size: 15px; }
  th, td { padding: .3rem .4rem; }
}
@media print {
  @page { margin: 16mm 14mm; }
  body { font-size: 10pt; background: none; }
  main { max-width: none; padding: 0; }
  h2 { margin-top: 1.6rem; break-after: avoid; }
  .side { grid-template-columns: 1fr 1fr; gap: 1rem 1.4rem; }
  .side.small { grid-template-columns: 1fr 1fr 1fr; }
  .side.small.four { grid-template-columns: 1fr 1fr 1fr 1fr; }
  table { font-size: 8.5pt; }
  tr, .bar, .keys div, .scroll { break-inside: avoid; }
  .keys { grid-template-columns: repeat(6, 1fr); gap: 1rem; }
  .keys dd { font-size: 14pt; }
  pre { background: none; padding: 0; font-size: 6.5pt; columns: 3; }
  .bar, .scale i, .legend, image { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
)css";

std::string swatch(const LegendEntry& entry) {
  const std::string open = "<svg viewBox=\"0 0 20 12\" aria-hidden=\"true\" class=\"" + entry.tone + "\">";
  if (entry.mark == "dot") return open + "<circle class=\"dot\" cx=\"10\" cy=\"6\" r=\"3.6\"/></svg>";
  if (entry.mark == "star") {
    return open +
           "<polygon class=\"dot\" points=\"10,0 11.6,4.2 16,4.4 12.5,7.1 13.7,11.4 10,8.9 6.3,11.4 7.5,7.1 4,4.4 "
           "8.4,4.2\"/></svg>";
  }
  if (entry.mark == "block") return open + "<path fill=\"currentColor\" d=\"M4 0h12v12h-12z\"/></svg>";
  const std::string area = entry.mark == "area" ? "<path class=\"area\" d=\"M0 1h20v11h-20z\"/>" : "";
  const std::string kind = entry.mark == "faint" || entry.mark == "dashed" ? " " + entry.mark : "";
  const std::string y = entry.mark == "area" ? "1" : "6";
  return open + area + "<path class=\"line" + kind + "\" d=\"M1 " + y + "h18\"/></svg>";
}

}  // namespace

std::string legend_html(const std::vector<LegendEntry>& entries) {
  if (entries.empty()) return "";
  std::string html = "<ul class=\"legend\">";
  for (const LegendEntry& entry : entries)
    html += "<li>" + swatch(entry) + "<b>" + html_escape(entry.label) + "</b></li>";
  return html + "</ul>\n";
}

std::string figure(const Plot& plot, const std::string& caption) {
  std::string description;
  bool in_tag = false;
  for (const char c : caption) {  // the caption's words
    if (c == '<') in_tag = true;
    if (!in_tag) description += c;
    if (c == '>') in_tag = false;
  }
  return figure_of(legend_html(plot.legend()) + plot.svg(description), caption);
}

std::string figure_of(const std::string& html, const std::string& caption) {
  return "<figure>\n" + html + "<figcaption>" + caption + "</figcaption>\n</figure>\n";
}

std::string side_by_side(const std::vector<std::string>& figures, bool small) {
  std::string html = small ? "<div class=\"side small\">\n" : "<div class=\"side\">\n";
  for (const std::string& one : figures) html += one;
  return html + "</div>\n";
}

std::string panels(const std::vector<Panel>& pictures, const std::string& low, const std::string& high,
                   const std::string& caption) {
  const bool threes = pictures.size() % 3 == 0;  // a full row on a wide screen, else of four
  std::string html = threes ? "<div class=\"side small\">\n" : "<div class=\"side small four\">\n", stops;
  for (const auto& [title, plot] : pictures) {
    const std::string text = html_escape(title);
    html += "<div><div class=\"panel\">" + text + "</div>" + plot.svg(text) + "</div>\n";
  }
  for (int i = 0; i <= 10; ++i) {
    const Colour c = heat_colour(i / 10.0);
    stops += fmt::format("{}rgb({} {} {})", i == 0 ? "" : ",", c[0], c[1], c[2]);
  }
  html += fmt::format(
      "</div>\n<div class=\"scale\"><span>{}</span><i style=\"background:linear-gradient(90deg,{})\"></i>"
      "<span>{}</span></div>\n",
      html_escape(low), stops, html_escape(high));
  return "<div class=\"wide\">" + figure_of(html, caption) + "</div>\n";
}

std::string table(const std::vector<std::vector<std::string>>& rows, const std::string& caption,
                  const std::string& style) {
  std::string html;
  if (!caption.empty()) html = "<div class=\"caption\">" + caption + "</div>\n";
  html += "<div class=\"scroll\"><table" + (style.empty() ? "" : " class=\"" + style + "\"") + ">\n";
  const bool headed = std::ranges::any_of(rows.front(), [](const std::string& cell) { return !cell.empty(); });
  if (!headed) html += "<tbody>\n";
  for (std::size_t r = headed ? 0 : 1; r < rows.size(); ++r) {
    html += r == 0 ? "<thead><tr>" : "<tr>";
    for (std::size_t c = 0; c < rows[r].size(); ++c) {
      const bool head = r == 0 || c == 0;
      const std::string scope = r == 0 ? " scope=\"col\"" : c == 0 ? " scope=\"row\"" : "";
      html += (head ? "<th" : "<td") + scope + ">" + rows[r][c] + (head ? "</th>" : "</td>");
    }
    html += r == 0 ? "</tr></thead><tbody>\n" : "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

void Page::key_numbers(const std::vector<KeyNumber>& numbers) {
  body_ += "<dl class=\"keys\">\n";
  for (const KeyNumber& number : numbers) {
    body_ += "<div><dt>" + html_escape(number.label) + "</dt><dd>" + html_escape(number.value) + "</dd>";
    if (!number.remark.empty()) body_ += "<dd>" + html_escape(number.remark) + "</dd>";
    body_ += "</div>\n";
  }
  body_ += "</dl>\n";
}

void Page::section(const std::string& title, const std::string& html) {
  body_ += "<section>\n<h2>" + html_escape(title) + "</h2>\n" + html + "</section>\n";
}

std::string Page::html() const {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         html_escape(title_) + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<main>\n<header>\n<h1>" +
         html_escape(title_) + "</h1>\n<p class=\"subtitle\">" + html_escape(subtitle_) + "</p>\n</header>\n" + body_ +
         "</main>\n</body>\n</html>\n";
}

}  // namespace petaflow
