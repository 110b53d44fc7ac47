//! The output of verify: a line for each finding, and the verdict.

use crate::Verdict;
use crate::damage::Damage;
use muster_server::Failure;
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The number of damages that are printed. Further ones are only counted.
const DAMAGE_LINES_MAX: u64 = 100;

pub(super) struct Report<'o> {
    /// The data directory. Paths are printed relative to it.
    data: PathBuf,
    out: &'o mut dyn Write,
    damages: u64,
    notes: u64,
}

impl<'o> Report<'o> {
    pub(super) fn new(data: &Path, out: &'o mut dyn Write) -> Self {
        Self { data: data.to_owned(), out, damages: 0, notes: 0 }
    }

    /// Prints that a part of the directory was checked.
    pub(super) fn checked(&mut self, path: &Path, what: &str) -> Result<(), Failure> {
        let path = self.relative(path);
        Ok(writeln!(self.out, "{}: {what}", path.display())?)
    }

    /// Prints a finding that does not prevent startup.
    pub(super) fn note(&mut self, path: &Path, what: &str) -> Result<(), Failure> {
        self.notes += 1;
        let path = self.relative(path);
        Ok(writeln!(self.out, "note: {}: {what}", path.display())?)
    }

    pub(super) fn unknown(&mut self, path: &Path) -> Result<(), Failure> {
        self.note(path, "not a file of muster; it is left alone at startup")
    }

    pub(super) fn damage(&mut self, damage: &Damage) -> Result<(), Failure> {
        self.damages += 1;
        if self.damages > DAMAGE_LINES_MAX {
            return Ok(());
        }
        let Damage { path, at, what } = damage;
        let path = self.relative(path);
        Ok(writeln!(self.out, "DAMAGED {}: byte {at}: {what}", path.display())?)
    }

    /// Prints damage that has no place in a file.
    pub(super) fn missing(&mut self, path: &Path, what: &dyn Display) -> Result<(), Failure> {
        self.damages += 1;
        let path = self.relative(path);
        Ok(writeln!(self.out, "DAMAGED {}: {what}", path.display())?)
    }

    pub(super) fn damages(&self) -> u64 {
        self.damages
    }

    pub(super) fn finish(self) -> Result<Verdict, Failure> {
        if self.damages > DAMAGE_LINES_MAX {
            writeln!(self.out, "and {} more", self.damages - DAMAGE_LINES_MAX)?;
        }
        if self.damages == 0 {
            writeln!(self.out, "good, {} notes", self.notes)?;
            return Ok(Verdict::Good);
        }
        writeln!(self.out, "damaged in {} places, {} notes", self.damages, self.notes)?;
        Ok(Verdict::Damaged)
    }

    fn relative(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.data).unwrap_or(path).to_owned()
    }
}
