//! A chart: an SVG that stretches with the page. Its labels are HTML beside it, so that they keep
//! their size. The page's script shows the values under the pointer.

use std::fmt::Write;

use serde::Serialize;

use super::markup::escape;
use super::scale::{Scale, Unit};

/// The size in the SVG's own coordinates. The page stretches the SVG.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 300.0;

pub(super) struct Plot {
    pub(super) title: String,
    /// A line under the title that says what the chart means, and which values are good.
    pub(super) explanation: String,
    pub(super) x: Scale,
    pub(super) y: Scale,
    /// The unit of the vertical axis, such as `members` or `milliseconds`.
    pub(super) y_name: String,
    pub(super) x_name: String,
    /// The x coordinates of the values of all series.
    pub(super) at: Vec<f64>,
    pub(super) series: Vec<Series>,
    pub(super) style: Style,
    pub(super) bands: Vec<Band>,
    pub(super) marks: Vec<Mark>,
}

pub(super) struct Series {
    pub(super) name: String,
    /// The meaning of the name, for the legend.
    pub(super) hint: &'static str,
    /// A class of the style sheet, such as `state-stable` or `line-1`.
    pub(super) class: String,
    /// `None` where there is no value: the line has a gap.
    pub(super) values: Vec<Option<f64>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Lines,
    /// A line with the area below it filled.
    Area,
    /// Stacked areas, the first series at the bottom.
    Stack,
    /// A bar from each x coordinate to the next.
    Bars,
}

/// A phase, above the chart.
#[derive(Clone)]
pub(super) struct Band {
    pub(super) name: String,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) problem: bool,
}

/// A numbered mark. A list below the chart explains it.
#[derive(Clone)]
pub(super) struct Mark {
    pub(super) at: f64,
    pub(super) text: String,
}

impl Plot {
    pub(super) fn render(&self) -> String {
        let mut html = String::from("<figure class=\"card\"><figcaption>");
        let _ = write!(
            html,
            "<h2>{}</h2><p>{}</p></figcaption>",
            escape(&self.title),
            escape(&self.explanation)
        );
        if self.series.iter().all(|series| series.values.iter().all(Option::is_none)) {
            return html + "<p>Nothing to draw.</p></figure>\n";
        }
        html += &self.legend();
        let _ = write!(
            html,
            "<div class=\"y-name\">{}</div><div class=\"chart\">",
            escape(&self.y_name)
        );
        html += &self.band_strip();
        html += &self.y_axis();
        let time = if self.x.unit() == Unit::Moment { " data-time=\"true\"" } else { "" };
        let _ = write!(html, "<div class=\"plot\" tabindex=\"0\"{time}>{}", self.svg());
        html += "<div class=\"cursor\" hidden=\"hidden\"></div>";
        html += "<div class=\"tip\" hidden=\"hidden\" role=\"status\"></div>";
        let _ = write!(html, "<script type=\"application/json\">{}</script></div>", self.data());
        html += &self.x_axis();
        let _ = write!(html, "</div><div class=\"x-name\">{}</div>", escape(&self.x_name));
        html += &self.mark_list();
        html + "</figure>\n"
    }

    fn legend(&self) -> String {
        if self.series.len() < 2 {
            return String::new();
        }
        let items = self.series.iter().map(|series| {
            let (class, name) = (escape(&series.class), escape(&series.name));
            let hint = match series.hint {
                "" => String::new(),
                hint => format!("<span class=\"dim\">: {}</span>", escape(hint)),
            };
            format!("<li><i class=\"{class}\"></i>{name}{hint}</li>")
        });
        format!("<ul class=\"legend\">{}</ul>", items.collect::<String>())
    }

    fn band_strip(&self) -> String {
        if self.bands.is_empty() {
            return String::new();
        }
        let bands = self.bands.iter().map(|band| {
            let (from, to) = (self.x.place(band.from), self.x.place(band.to));
            let (problem, name) = (if band.problem { " problem" } else { "" }, escape(&band.name));
            format!(
                "<div class=\"band{problem}\" style=\"left:{:.2}%;width:{:.2}%\" \
                 title=\"{name}\">{name}</div>",
                from * 100.0,
                (to - from) * 100.0
            )
        });
        format!("<div class=\"bands\">{}</div>", bands.collect::<String>())
    }

    fn y_axis(&self) -> String {
        let ticks = self.y.ticks().into_iter().map(|tick| {
            format!(
                "<span style=\"bottom:{:.2}%\">{}</span>",
                tick.place * 100.0,
                escape(&tick.label)
            )
        });
        format!("<div class=\"y\" aria-hidden=\"true\">{}</div>", ticks.collect::<String>())
    }

    fn x_axis(&self) -> String {
        let ticks = self.x.ticks().into_iter().map(|tick| {
            // A label at an end of the axis must stay inside the chart.
            let class = match tick.place {
                p if p < 0.02 => "start",
                p if p > 0.98 && tick.minor => "end minor",
                p if p > 0.98 => "end",
                _ if tick.minor => "minor",
                _ => "major",
            };
            let (left, label) = (tick.place * 100.0, escape(&tick.label));
            format!("<span class=\"{class}\" style=\"left:{left:.2}%\">{label}</span>")
        });
        format!("<div class=\"x\" aria-hidden=\"true\">{}</div>", ticks.collect::<String>())
    }

    fn mark_list(&self) -> String {
        if self.marks.is_empty() {
            return String::new();
        }
        let items = self.marks.iter().map(|mark| format!("<li>{}</li>", escape(&mark.text)));
        format!("<ol class=\"marks\">{}</ol>", items.collect::<String>())
    }

    fn svg(&self) -> String {
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"{}. {}\">",
            escape(&self.title),
            escape(&self.explanation)
        );
        for tick in self.y.ticks() {
            let y = HEIGHT * (1.0 - tick.place);
            let _ = write!(svg, "<path class=\"grid\" d=\"M0 {y:.1}H{WIDTH}\"/>");
        }
        for band in self.bands.iter().skip(1) {
            let x = self.x.place(band.from) * WIDTH;
            let _ = write!(svg, "<path class=\"border\" d=\"M{x:.1} 0V{HEIGHT}\"/>");
        }
        match self.style {
            Style::Lines => self.series.iter().for_each(|series| svg += &self.line(series)),
            Style::Area => self.series.iter().for_each(|series| {
                svg += &self.area(&series.class, &[], &filled(&series.values));
                svg += &self.line(series);
            }),
            Style::Stack => svg += &self.stack(),
            Style::Bars => self.series.iter().for_each(|series| svg += &self.bars(series)),
        }
        for mark in &self.marks {
            let x = self.x.place(mark.at) * WIDTH;
            let _ = write!(svg, "<path class=\"mark\" d=\"M{x:.1} 0V{HEIGHT}\"/>");
        }
        svg += "</svg>";
        for (number, mark) in self.marks.iter().enumerate() {
            let (left, number) = (self.x.place(mark.at) * 100.0, number + 1);
            let _ = write!(svg, "<b class=\"dot\" style=\"left:{left:.2}%\">{number}</b>");
        }
        svg
    }

    fn point(&self, at: f64, value: f64) -> (f64, f64) {
        (self.x.place(at) * WIDTH, (1.0 - self.y.place(value)) * HEIGHT)
    }

    fn line(&self, series: &Series) -> String {
        let mut path = String::new();
        let mut pen_is_down = false;
        for (index, (at, value)) in self.at.iter().zip(&series.values).enumerate() {
            if let Some(value) = value {
                let (x, y) = self.point(*at, *value);
                let _ = write!(path, "{}{x:.1} {y:.1}", if pen_is_down { "L" } else { "M" });
                let alone =
                    !pen_is_down && series.values.get(index + 1).is_none_or(Option::is_none);
                path += if alone { "h0" } else { "" }; // a dot
            }
            pen_is_down = value.is_some();
        }
        format!("<path class=\"line {}\" d=\"{path}\"/>", escape(&series.class))
    }

    /// The filled area between two lines. With an empty `below`, the area reaches down to the axis.
    fn area(&self, class: &str, below: &[f64], above: &[f64]) -> String {
        let mut path = String::new();
        for (at, value) in self.at.iter().zip(above) {
            let (x, y) = self.point(*at, *value);
            let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { "M" } else { "L" });
        }
        for (index, at) in self.at.iter().enumerate().rev() {
            let (x, y) = self.point(*at, below.get(index).copied().unwrap_or(0.0));
            let _ = write!(path, "L{x:.1} {y:.1}");
        }
        format!("<path class=\"area {}\" d=\"{path}Z\"/>", escape(class))
    }

    fn stack(&self) -> String {
        let mut below = vec![0.0; self.at.len()];
        let mut svg = String::new();
        for series in &self.series {
            let values = filled(&series.values);
            let above: Vec<_> =
                below.iter().zip(values).map(|(below, value)| below + value).collect();
            svg += &self.area(&series.class, &below, &above);
            below = above;
        }
        svg
    }

    fn bars(&self, series: &Series) -> String {
        let mut svg = String::new();
        for (edges, value) in self.at.windows(2).zip(filled(&series.values)) {
            let ((x, y), (end, _)) = (self.point(edges[0], value), self.point(edges[1], value));
            let _ = write!(
                svg,
                "<rect class=\"area {}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" \
                 height=\"{:.1}\"/>",
                escape(&series.class),
                x + 1.0,
                (end - x - 2.0).max(1.0),
                HEIGHT - y
            );
        }
        svg
    }

    /// The values that the script shows under the pointer.
    fn data(&self) -> String {
        #[derive(Serialize)]
        struct Data<'a> {
            places: Vec<f64>,
            at: &'a [f64],
            x: &'a str,
            y: &'a str,
            bars: bool,
            series: Vec<(&'a str, &'a str, &'a [Option<f64>])>,
        }
        let series = self.series.iter();
        let data = Data {
            places: self.at.iter().map(|at| (self.x.place(*at) * 1e4).round() / 1e4).collect(),
            at: &self.at,
            x: self.x.unit().code(),
            y: self.y.unit().code(),
            bars: self.style == Style::Bars,
            series: series.map(|s| (s.name.as_str(), s.class.as_str(), &*s.values)).collect(),
        };
        // Numbers and strings can always be written as JSON, so there is no error. If there were
        // one, the chart would only show no values under the pointer.
        let json = serde_json::to_string(&data).unwrap_or_default();
        json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
    }
}

fn filled(values: &[Option<f64>]) -> Vec<f64> {
    values.iter().map(|value| value.unwrap_or(0.0)).collect()
}
