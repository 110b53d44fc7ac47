//! Regular expressions as groups use them: examples of the dialect, limits, and slices.
//! `regex_re2j` compares the whole dialect with RE2J.
#![allow(clippy::unwrap_used)]

use muster_coordinator::regex::{INSTRUCTIONS_MAX, Regex, RegexError, Resolution};

#[track_caller]
fn check(expression: &str, matches: &[&str], others: &[&str]) {
    let regex = Regex::new(expression).unwrap();
    for name in matches {
        assert!(regex.matches(name), "{expression} should match {name:?}");
    }
    for name in others {
        assert!(!regex.matches(name), "{expression} should not match {name:?}");
    }
}

#[track_caller]
fn refused(expression: &str, description: &str) {
    assert_eq!(Regex::new(expression).unwrap_err().to_string(), description, "{expression}");
}

#[test]
fn a_name_is_matched_as_a_whole() {
    check("orders", &["orders"], &["orders2", "my-orders", ""]);
    check("orders.*|payments-\\d+", &["orders", "orders-eu", "payments-12"], &["payments-"]);
    check("", &[""], &["a"]);
    check("^a$|\\Ab\\z", &["a", "b"], &["ab"]);
}

#[test]
fn classes_are_ascii_and_have_no_set_operations() {
    check("\\w+\\s\\d", &["a_1 2"], &["a_1\u{b}2", "é 2"]);
    check("[a-c&&b]", &["a", "&", "c"], &["d"]);
    check("[[:alpha:]-]+\\pN", &["a-b1"], &["1"]);
    check("\\Qa.b\\E.", &["a.bc"], &["axbc"]);
}

#[test]
fn flags_hold_to_the_end_of_their_group() {
    check("a(?i)b(?-i:c)d", &["abcd", "aBcD"], &["Abcd", "abCd"]);
    check("(a(?i))b", &["ab"], &["aB"]);
    check(".", &["a"], &["\n"]);
    check("(?s).", &["a", "\n"], &[]);
}

#[test]
fn errors_have_the_descriptions_of_re2j() {
    refused("(?=a)", "invalid or unsupported Perl syntax");
    refused("(a)\\1", "invalid escape sequence");
    refused("a**", "invalid nested repetition operator");
    refused("{*", "invalid nested repetition operator");
    refused("*a", "missing argument to repetition operator");
    refused("a{1001}", "invalid repeat count");
    refused("(a", "missing closing )");
    refused("a)", "regexp/syntax: internal error");
    refused("[a", "missing closing ]");
    refused("[b-a]", "invalid character class range");
    refused("[[:]", "invalid character class range");
    refused("[[:]a:]]", "invalid character class range");
    refused("\\p{Klingon}", "invalid character class range");
    refused("a\\", "trailing backslash at end of expression");
    refused("(?P<n>a)(?P<n>b)", "duplicate capture group name");
}

#[test]
fn a_repeat_has_a_maximum_of_a_thousand() {
    let name = "a".repeat(1000);
    check("a{1000}", &[&name], &[&name[1..]]);
    check("(?:a{0,1000})", &["", "a", &name], &["b"]);
}

#[test]
fn a_repeated_repeat_is_repeated_as_a_whole() {
    check("a+(?s){2}\\Q\\E*", &["", "aa", "aaa"], &["a"]);
    check("(?:a+b?){2}?", &["aa", "aba", "abab"], &["a", "ab", "b"]);
    check("a?(?i){3}(?i)+", &["", "a", "aaa", "aaaa"], &["b"]);
}

#[test]
fn hostile_expressions_end_at_the_limit() {
    assert_eq!(Regex::new("((a{1000}){1000}){1000}").unwrap_err(), RegexError::TooLarge);
    let long = "a".repeat(INSTRUCTIONS_MAX);
    assert_eq!(Regex::new(&long).unwrap_err(), RegexError::TooLarge);
    let deep = "(".repeat(INSTRUCTIONS_MAX / 4);
    assert_eq!(Regex::new(&deep).unwrap_err(), RegexError::MissingParenthesis);
    let deep = format!("{deep}a{}", ")*".repeat(INSTRUCTIONS_MAX / 4));
    check(&deep, &["", "aaa"], &["b"]);
}

#[test]
fn matching_takes_linear_time() {
    // A backtracking matcher would take 2^240 steps.
    check("(a*)*b|(a|aa)+$c", &[], &[&"a".repeat(240)]);
    check("(a?){240}a{240}", &[&"a".repeat(240)], &[&"a".repeat(239)]);
}

#[test]
fn a_resolution_in_slices_has_the_result_of_a_whole_one() {
    let names: Vec<String> = (100..400).map(|n| format!("topic-{n}")).collect();
    let mut whole = Resolution::new(Regex::new(".*[05]").unwrap());
    let all = whole.step(names.iter().map(String::as_str), usize::MAX).unwrap();
    assert_eq!(all.len(), 60);

    let mut sliced = Resolution::new(Regex::new(".*[05]").unwrap());
    let mut slices = 1;
    let found = loop {
        let from = sliced.last().map(str::to_owned);
        let rest = names.iter().map(String::as_str).filter(|name| Some(*name) > from.as_deref());
        match sliced.step(rest, 100) {
            Some(found) => break found,
            None => slices += 1,
        }
    };
    assert_eq!(found, all);
    assert!(slices > 20, "{slices} slices");
}
