//! `muster generate`: man pages and shell completions, for packages.

use clap::Command;
use clap_complete::Shell;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(command: Command, directory: &Path) -> ExitCode {
    match write(command, directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("muster: could not write to {}: {error}", directory.display());
            ExitCode::from(2)
        }
    }
}

/// Writes a man page for each command to `man`, and a file for each shell to `completions`. All
/// builds of a release write equal pages, because pages do not contain the commit or the target.
fn write(command: Command, directory: &Path) -> io::Result<()> {
    let mut command = command.version(env!("CARGO_PKG_VERSION")).long_version(None);
    let (man, completions) = (directory.join("man"), directory.join("completions"));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut command, "muster", &completions)?;
    }
    clap_mangen::generate_to(command, &man)
}
