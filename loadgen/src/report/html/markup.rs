//! Pieces of HTML. All text of a page goes through [`escape`].

use std::fmt::Write;

use crate::report::text::plain;

/// Escapes text for element content and quoted attributes. Makes control characters visible.
pub(in crate::report) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// A block with a title and a line of explanation.
pub(super) fn card(title: &str, explanation: &str, content: &str) -> String {
    let (title, explanation) = (escape(title), escape(explanation));
    format!("<section class=\"card\"><h2>{title}</h2><p>{explanation}</p>{content}</section>\n")
}

/// A table that scrolls on its own on a narrow screen. Its cells are HTML.
pub(super) struct Table {
    html: String,
    texts: usize,
}

impl Table {
    /// The first `texts` columns contain text, the others numbers.
    pub(super) fn new(head: &[&str], texts: usize) -> Self {
        let mut html = String::from("<div class=\"scroll\"><table><thead><tr>");
        for (column, name) in head.iter().enumerate() {
            let class = if column < texts { "" } else { " class=\"number\"" };
            let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", escape(name));
        }
        html.push_str("</tr></thead><tbody>");
        Self { html, texts }
    }

    pub(super) fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.html.push_str("<tr>");
        for (column, cell) in cells.into_iter().enumerate() {
            let class = if column < self.texts { "" } else { " class=\"number\"" };
            let _ = write!(self.html, "<td{class}>{}</td>", cell.as_ref());
        }
        self.html.push_str("</tr>");
    }

    pub(super) fn end(self) -> String {
        self.html + "</tbody></table></div>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_an_element_or_an_attribute() {
        assert_eq!(escape("<a b=\"c\" d='e'>&"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;");
        assert_eq!(escape("a\u{0}b\nc"), "a\\u{0}b\\nc");
        assert_eq!(escape("grün"), "grün");
    }
}
