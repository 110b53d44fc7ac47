//! The Rust files of the workspace.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Folders that hold no sources of the project, or copies of its inputs.
const PASSED_OVER: [&str; 3] = ["target", "corpus", "node_modules"];

/// A file of Rust code.
#[derive(Debug)]
pub struct Source {
    /// Below the workspace, with slashes.
    pub path: String,
    pub text: String,
}

impl Source {
    /// Whether it is a test, or a module of tests.
    pub fn is_test(&self) -> bool {
        let mut folders = self.path.split('/');
        folders.any(|it| matches!(it, "tests" | "tests.rs" | "testing.rs" | "benches"))
    }

    /// Lines with their numbers, from 1 on.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// All files of Rust code in the workspace, by path.
#[derive(Debug)]
pub struct Sources(pub Vec<Source>);

impl Sources {
    /// Those of the workspace that this crate is a member of.
    ///
    /// # Errors
    /// A file or directory cannot be read.
    pub fn of_workspace() -> io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut paths = Vec::new();
        collect(&root, &mut paths)?;
        paths.sort();
        let read = |path: PathBuf| {
            let below = path.strip_prefix(&root).unwrap_or(&path);
            let text = fs::read_to_string(&path)?;
            Ok(Source { path: below.display().to_string(), text })
        };
        Ok(Self(paths.into_iter().map(read).collect::<io::Result<_>>()?))
    }
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_passed_over = name.starts_with('.') || PASSED_OVER.contains(&name.as_ref());
        if entry.file_type()?.is_dir() && !is_passed_over {
            collect(&path, paths)?;
        } else if path.extension().is_some_and(|it| it == "rs") {
            paths.push(path);
        }
    }
    Ok(())
}
