//! `ssl.principal.mapping.rules`: derives the name of a principal from a certificate's subject,
//! like Kafka's `SslPrincipalMapper`.

use regex::Regex;
use std::fmt;

/// The rules of a listener, in order.
#[derive(Debug, Clone)]
pub struct Rules(Vec<Rule>);

#[derive(Debug, Clone)]
enum Rule {
    /// Takes the name unchanged.
    Default,
    Pattern {
        pattern: Regex,
        replacement: String,
        case: Case,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Same,
    Lower,
    Upper,
}

/// The text is not a valid list of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidRules(String);

impl fmt::Display for InvalidRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self(vec![Rule::Default])
    }
}

impl Rules {
    /// Parses a comma-separated list of rules: `DEFAULT`, or `RULE:pattern/replacement/`,
    /// optionally followed by L or U.
    ///
    /// # Errors
    /// A rule has another form, or its pattern is not a regular expression.
    pub fn parse(text: &str) -> Result<Self, InvalidRules> {
        let mut rules = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (rule, after) = Rule::parse(rest)
                .map_err(|reason| InvalidRules(format!("{reason} in the rules at {rest:?}")))?;
            rules.push(rule);
            rest = after.trim_start();
            rest = match rest.strip_prefix(',') {
                Some(rest) => rest.trim_start(),
                None if rest.is_empty() => rest,
                None => return Err(InvalidRules(format!("a comma is missing before {rest:?}"))),
            };
        }
        Ok(if rules.is_empty() { Self::default() } else { Self(rules) })
    }

    /// Applies the first rule that matches. None if no rule does.
    pub fn apply(&self, name: &str) -> Option<String> {
        self.0.iter().find_map(|rule| rule.apply(name))
    }
}

impl Rule {
    /// Parses the first rule of a text. Also returns the text after it.
    fn parse(text: &str) -> Result<(Self, &str), String> {
        if let Some(rest) = text.strip_prefix("DEFAULT") {
            return Ok((Self::Default, rest));
        }
        let Some(rest) = text.strip_prefix("RULE:") else {
            return Err("neither DEFAULT nor RULE:".to_owned());
        };
        let (pattern, rest) = until_slash(rest).ok_or("no / after the pattern")?;
        let (replacement, rest) = until_slash(rest).ok_or("no / after the replacement")?;
        let (case, rest) = match rest.as_bytes().first() {
            Some(b'L') => (Case::Lower, &rest[1..]),
            Some(b'U') => (Case::Upper, &rest[1..]),
            _ => (Case::Same, rest),
        };
        // As with Java's `matches`, the pattern has to match the whole name.
        let pattern = Regex::new(&format!("^(?:{pattern})$")).map_err(|error| error.to_string())?;
        let replacement = java_replacement(&replacement.replace("\\/", "/"));
        Ok((Self::Pattern { pattern, replacement, case }, rest))
    }

    fn apply(&self, name: &str) -> Option<String> {
        match self {
            Self::Default => Some(name.to_owned()),
            Self::Pattern { pattern, replacement, case } => {
                let found = pattern.captures(name)?;
                let mut result = String::new();
                found.expand(replacement, &mut result);
                Some(match case {
                    Case::Same => result,
                    Case::Lower => result.to_lowercase(),
                    Case::Upper => result.to_uppercase(),
                })
            }
        }
    }
}

/// Splits a text at its first slash that is not escaped by a backslash.
fn until_slash(text: &str) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '/' if !is_escaped => return Some((&text[..at], &text[at + 1..])),
            _ => is_escaped = c == '\\' && !is_escaped,
        }
    }
    None
}

/// Converts a replacement in Java's syntax to the syntax of the crate [`regex`]. In Java, `$1a`
/// means group 1 followed by an a.
fn java_replacement(text: &str) -> String {
    let mut result = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('$') => result.push_str("$$"),
                Some(other) => result.push(other),
                None => result.push('\\'),
            },
            '$' => {
                let mut group = String::new();
                while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                    group.push(digit);
                }
                if group.is_empty() {
                    result.push_str("$$");
                } else {
                    result.push_str(&format!("${{{group}}}"));
                }
            }
            other => result.push(other),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "CN=kafka1,OU=SME,O=mycp,L=Fulton,ST=MD,C=US";

    /// The cases come from Kafka's documentation and from its `SslPrincipalMapperTest`.
    #[test]
    fn rules_are_applied_as_kafka_does() {
        let cases = [
            ("DEFAULT", NAME, Some(NAME)),
            ("", NAME, Some(NAME)),
            (
                "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
                "CN=Duke,OU=ServiceUsers,O=Org",
                Some("Duke"),
            ),
            (
                "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
                "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US",
                Some("duke@sme"),
            ),
            ("RULE:^cn=(.*?),ou=(.*?)$/$1/U , DEFAULT", "cn=a,ou=b", Some("A")),
            ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", NAME, Some("kafka1")),
            ("RULE:^CN=x$/y/", NAME, None),
            ("RULE:^CN=x$/y/,DEFAULT", NAME, Some(NAME)),
            ("RULE:CN=(\\w+).*/prefix\\/$1/", NAME, Some("prefix/kafka1")),
            ("RULE:CN=(\\w+).*/$1x/", NAME, Some("kafka1x")),
        ];
        for (rules, name, expected) in cases {
            assert_eq!(Rules::parse(rules).unwrap().apply(name).as_deref(), expected, "{rules}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["default", "RULE:^CN=(.*?),OU=x", "RULE:a/b", "RULE:(/x/", "DEFAULT DEFAULT"] {
            assert!(Rules::parse(text).is_err(), "{text}");
        }
    }
}
