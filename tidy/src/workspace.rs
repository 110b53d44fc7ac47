//! The files and crates that the rules check.

use crate::graph::{CrateGraph, crate_graphs};
use crate::{Deny, Package, Source};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Folders that contain nothing of the project.
const PASSED_OVER: [&str; 3] = ["target", "node_modules", ".git"];

/// Folders with this name contain fuzzing inputs, which are neither pages nor code.
const INPUTS: &str = "corpus";

/// The files of the workspace, and the crates that it depends on.
#[derive(Default)]
pub struct Workspace {
    /// The Rust files, by path.
    pub code: Vec<Source>,
    /// The Markdown files, by path.
    pub pages: Vec<Source>,
    /// All files and folders, to which a link may lead.
    pub paths: BTreeSet<String>,
    pub packages: Vec<Package>,
    pub deny: Deny,
    graphs: OnceCell<Vec<CrateGraph>>,
}

impl Workspace {
    /// Reads the workspace of this crate.
    ///
    /// # Errors
    /// A file or directory cannot be read, or `cargo metadata` fails.
    pub fn read() -> io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut workspace = Self {
            packages: Package::all()?,
            deny: Deny::parse(&fs::read_to_string(root.join("deny.toml"))?)?,
            ..Self::default()
        };
        let mut paths = Vec::new();
        collect(&root, &mut paths)?;
        paths.sort();
        for path in paths {
            let below = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
            let is_input = below.split('/').any(|it| it == INPUTS || it.starts_with('.'));
            if !is_input && path.is_file() && is_read(&below) {
                workspace.add(&below, fs::read_to_string(&path)?);
            }
            workspace.paths.insert(below);
        }
        Ok(workspace)
    }

    /// A workspace that consists of these files.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut workspace = Self::default();
        for (path, text) in files {
            let folders = path.match_indices('/').map(|(at, _)| path[..at].to_owned());
            workspace.paths.extend(folders);
            workspace.paths.insert((*path).to_owned());
            workspace.add(path, (*text).to_owned());
        }
        workspace
    }

    /// A workspace without files that has these dependencies.
    pub(crate) fn depending(packages: Vec<Package>, deny: Deny) -> Self {
        Self { packages, deny, ..Self::default() }
    }

    /// All Rust files except those of the crate `tidy`, which has to contain the banned phrases.
    pub(crate) fn judged(&self) -> impl Iterator<Item = &Source> {
        self.code.iter().filter(|it| !it.path.starts_with("tidy/"))
    }

    /// The graph of files for each crate.
    pub(crate) fn graphs(&self) -> &[CrateGraph] {
        self.graphs.get_or_init(|| crate_graphs(&self.code))
    }

    fn add(&mut self, path: &str, text: String) {
        let files = if path.ends_with(".rs") { &mut self.code } else { &mut self.pages };
        files.push(Source::new(path, text));
    }
}

fn is_read(path: &str) -> bool {
    path.ends_with(".rs") || path.ends_with(".md")
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_passed_over = PASSED_OVER.contains(&entry.file_name().to_string_lossy().as_ref());
        if is_passed_over {
            continue;
        }
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), paths)?;
        }
        paths.push(entry.path());
    }
    Ok(())
}
