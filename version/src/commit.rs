//! Finds the commit from which a copy of the source files was made.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, iter};

/// A hash is cut to this length.
const DIGITS: usize = 12;

/// The commit's hash, with `-dirty` if a file was changed since the commit. None if the sources are
/// neither a clone nor an archive that names its commit.
pub(crate) fn of(sources: &Path) -> Option<String> {
    of_archive(sources).or_else(|| of_clone(sources))
}

/// The files that change when the commit does.
pub(crate) fn changes_with(sources: &Path) -> impl Iterator<Item = PathBuf> {
    let log = git(sources, &["rev-parse", "--git-path", "logs/HEAD"]);
    iter::once(file(sources)).chain(log.map(|log| sources.join(log)))
}

/// The hash that `git archive` has written into `version/COMMIT`. Sites that offer archives of
/// commits write the hash, too.
fn of_archive(sources: &Path) -> Option<String> {
    let text = fs::read_to_string(file(sources)).ok()?;
    let hash = text.split_whitespace().next()?;
    let is_hash = hash.len() >= DIGITS && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hash.then(|| hash[..DIGITS].to_owned())
}

fn of_clone(sources: &Path) -> Option<String> {
    let abbreviated = format!("--abbrev={DIGITS}");
    git(sources, &["describe", "--always", "--dirty", &abbreviated, "--exclude=*"])
}

fn file(sources: &Path) -> PathBuf {
    sources.join("version/COMMIT")
}

/// The output of git, if `sources` is the top directory of a repository. If it is only a directory
/// within a repository, the result is None.
fn git(sources: &Path, arguments: &[&str]) -> Option<String> {
    let around = fs::canonicalize(sources).ok()?.parent()?.to_owned();
    let output = Command::new("git")
        .current_dir(sources)
        .env("GIT_CEILING_DIRECTORIES", around)
        .env_remove("GIT_DIR")
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// The text of `version/COMMIT` in a clone.
    const OF_CLONES: &str = "$Format:%H %ct$\n";
    const HEAD: &str = "0123456789ab";

    #[test]
    fn a_clone_says_the_commit_and_whether_it_was_changed() {
        let clone = repository();
        let commit = of(clone.path()).unwrap();
        assert_eq!(commit.len(), DIGITS);
        assert!(run(clone.path(), &["rev-parse", "HEAD"]).starts_with(&commit));

        fs::write(clone.path().join("README.md"), "changed").unwrap();
        assert_eq!(of(clone.path()), Some(format!("{commit}-dirty")));
    }

    #[test]
    fn an_archive_says_the_commit_that_its_clone_says() {
        let clone = repository();
        let archive = tempfile::tempdir().unwrap();
        let tar = archive.path().join("sources.tar");
        run(clone.path(), &["archive", "--output", tar.to_str().unwrap(), "HEAD"]);
        let unpacked =
            Command::new("tar").current_dir(archive.path()).arg("-xf").arg(&tar).status();
        assert!(unpacked.unwrap().success());

        assert!(!archive.path().join(".git").exists());
        assert_eq!(of(archive.path()), of(clone.path()));
        assert_eq!(changes_with(archive.path()).collect::<Vec<_>>(), [file(archive.path())]);
    }

    #[test]
    fn sources_within_the_repository_of_others_do_not_say_its_commit() {
        let others = repository();
        let sources = others.path().join("vendor/muster");
        fs::create_dir_all(sources.join("version")).unwrap();
        assert_eq!(of(&sources), None);
        fs::write(file(&sources), OF_CLONES).unwrap();
        assert_eq!(of(&sources), None);
        fs::write(file(&sources), format!("{HEAD}{HEAD} 1764000000\n")).unwrap();
        assert_eq!(of(&sources).as_deref(), Some(HEAD));
    }

    #[test]
    fn a_new_commit_changes_a_file_that_is_watched() {
        let clone = repository();
        let read = || -> Vec<_> { changes_with(clone.path()).map(fs::read).collect() };
        let before: Vec<_> = read().into_iter().map(Result::unwrap).collect();
        commit(clone.path());
        let after: Vec<_> = read().into_iter().map(Result::unwrap).collect();
        assert_ne!(before, after);
    }

    /// A repository with those files of this repository that `git archive` needs.
    fn repository() -> TempDir {
        let clone = tempfile::tempdir().unwrap();
        fs::create_dir(clone.path().join("version")).unwrap();
        fs::write(file(clone.path()), OF_CLONES).unwrap();
        fs::write(clone.path().join(".gitattributes"), include_str!("../../.gitattributes"))
            .unwrap();
        fs::write(clone.path().join("README.md"), "muster").unwrap();
        run(clone.path(), &["init", "--quiet"]);
        run(clone.path(), &["add", "--all"]);
        commit(clone.path());
        clone
    }

    fn commit(clone: &Path) {
        let name = ["-c", "user.name=tester", "-c", "user.email=tester@localhost"];
        run(
            clone,
            &[&name[..], &["commit", "--quiet", "--allow-empty", "-m", "A commit"]].concat(),
        );
    }

    fn run(directory: &Path, arguments: &[&str]) -> String {
        let output = Command::new("git").current_dir(directory).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}
