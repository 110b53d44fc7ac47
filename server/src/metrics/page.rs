//! The page of the admin listener: a single file, which fetches its data from the API. Its content
//! security policy has the hashes of its script and its style. So a browser runs no other script
//! and loads nothing else.

use super::http::{Code, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest;

const PAGE: &str = include_str!("page/page.html");

pub(super) fn answer() -> Response {
    let page = Response::new(Code(200, "OK"), "text/html; charset=utf-8", PAGE.to_owned());
    Response { headers: format!("Content-Security-Policy: {}\r\n", policy()), ..page }
}

fn policy() -> String {
    let (script, style) = (hash("<script>", "</script>"), hash("<style>", "</style>"));
    format!(
        "default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'"
    )
}

/// The hash of the text between two tags of the page.
fn hash(begin: &str, end: &str) -> String {
    let after = PAGE.split_once(begin).map_or("", |(_, after)| after);
    let text = after.split_once(end).map_or("", |(text, _)| text);
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    format!("sha256-{}", STANDARD.encode(hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_script_and_one_style_and_loads_nothing() {
        for tag in ["<script", "<style"] {
            assert_eq!(PAGE.matches(tag).count(), 1, "{tag}");
        }
        for foreign in ["http://", "https://", "//cdn", " src=", " onclick", " style=", "innerHTML"]
        {
            assert!(!PAGE.contains(foreign), "{foreign}");
        }
        let policy = policy();
        assert_eq!(policy.matches("'sha256-").count(), 2, "{policy}");
        assert!(!policy.contains("unsafe") && PAGE.len() < 64 << 10);
    }
}
