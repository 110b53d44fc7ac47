//! All rules.

mod apart;
mod cycles;
mod dependencies;
mod functions;
mod lines;
mod openings;
mod pages;
mod words;

use crate::Rule;

/// All rules, in the order of their subjects: lines, functions, words, files, crates, pages,
/// dependencies.
pub static RULES: &[&dyn Rule] = &[
    &lines::LongLines,
    &lines::LongFiles,
    &lines::BoolMatches,
    &functions::LongFunctions,
    &words::Words,
    &words::WordsInPages,
    &words::Pronouns,
    &words::Nounless,
    &words::Behind,
    &openings::IsRust,
    &openings::Heads,
    &openings::Unsafe,
    &cycles::Unreached,
    &cycles::Components,
    &cycles::Modules,
    &apart::Apart,
    &pages::Summary,
    &pages::Links,
    &dependencies::Licences,
    &dependencies::Registry,
    &dependencies::Versions,
    &dependencies::UnusedSkips,
];
