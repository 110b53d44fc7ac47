//! SCRAM users that operators add by name and password: the first user at the first start, others
//! while no server runs.

use crate::Failure;
use crate::cluster::{
    Brokers, ClusterImage, OfflinePartitions, View, alter_user_scram_credentials,
};
use crate::config::Config;
use crate::data_dir::{DataDirError, Meta};
use crate::placement::CONTROLLER;
use crate::random::RandomIds;
use crate::security::{ScramCredential, ScramMechanism};
use muster_codec::messages::{AlterUserScramCredentialsRequest, ScramCredentialUpsertion};
use muster_codec::records::ClusterRecord;
use muster_coordinator::Ids;
use std::env;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The most bytes that are read for a password.
const PASSWORD_BYTES_MAX: u64 = 4_096;

/// The environment variable with the first user's password, if no file is named.
pub const FIRST_PASSWORD: &str = "MUSTER_FIRST_USER_PASSWORD";

/// The user to add to a new data directory.
#[derive(Debug, Clone)]
pub struct FirstUser {
    pub name: String,
    pub mechanism: ScramMechanism,
    /// Without a file, the password is in the environment.
    pub password_file: Option<PathBuf>,
}

impl FirstUser {
    /// The records that add the user to a new data directory.
    pub(crate) fn records_for(
        &self,
        config: &Config,
        meta: &Meta,
    ) -> Result<Vec<ClusterRecord<'static>>, DataDirError> {
        let (image, offline) = (ClusterImage::new(config), OfflinePartitions::default());
        let view = View {
            config,
            image: &image,
            placement: meta.placement(),
            brokers: Brokers::alone(&[]),
            shard: CONTROLLER,
            offline: &offline,
            cluster_id: &meta.cluster_id,
        };
        self.records(&view).map_err(|why| DataDirError::First(why.to_string()))
    }

    /// The records of the user's credential. The password is read only when the user is added, as
    /// it may be gone at later starts.
    ///
    /// # Errors
    /// There is no password or it cannot be read, there are no random bytes, or the user name is
    /// invalid.
    fn records(&self, view: &View<'_>) -> Result<Vec<ClusterRecord<'static>>, Failure> {
        let named = |why: Failure| format!("--first-user {}: {why}", self.name).into();
        let password = self.password().map_err(named)?;
        let iterations = ScramCredential::ITERATIONS_MIN;
        let upsertion = upsertion(&self.name, self.mechanism, &password, iterations)?;
        let upsertions = vec![upsertion];
        let deletions = Vec::new();
        alter(view, &AlterUserScramCredentialsRequest { deletions, upsertions }).map_err(named)
    }

    fn password(&self) -> Result<String, Failure> {
        match &self.password_file {
            Some(file) => password_of_file(file),
            None => match env::var(FIRST_PASSWORD) {
                Ok(password) if !password.is_empty() => Ok(password),
                Ok(_) | Err(_) => Err(format!(
                    "{FIRST_PASSWORD} is not set, and there is no --first-user-password-file"
                )
                .into()),
            },
        }
    }
}

/// Reads the password in the first line of a file.
///
/// # Errors
/// The file cannot be read, or the line is empty.
pub fn password_of_file(path: &Path) -> Result<String, Failure> {
    let named = |error| format!("could not read {}: {error}", path.display());
    password_of(File::open(path).map_err(named)?)
}

/// Reads the password in the first line of a text.
///
/// # Errors
/// The text cannot be read, or the line is empty.
pub fn password_of(text: impl Read) -> Result<String, Failure> {
    let mut read = String::new();
    text.take(PASSWORD_BYTES_MAX).read_to_string(&mut read)?;
    match read.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        Some(_) | None => Err("the password is empty".into()),
    }
}

/// Makes the request that adds a user.
///
/// # Errors
/// The iterations are out of bounds, or there are no random bytes.
pub fn upsertion<'r>(
    name: &'r str,
    mechanism: ScramMechanism,
    password: &str,
    iterations: i32,
) -> Result<ScramCredentialUpsertion<'r>, Failure> {
    let bounds = ScramCredential::ITERATIONS_MIN..=ScramCredential::ITERATIONS_MAX;
    if !bounds.contains(&iterations) {
        let (min, max) = bounds.into_inner();
        return Err(format!("iterations are {min} to {max}").into());
    }
    let mut ids = RandomIds::new()?;
    let salt = [ids.next_id().0, ids.next_id().0].concat();
    let salted = mechanism.salted_password(password, &salt, iterations.unsigned_abs());
    Ok(ScramCredentialUpsertion {
        name: name.into(),
        mechanism: mechanism.number(),
        iterations,
        salt: salt.into(),
        salted_password: salted.into(),
    })
}

/// Decides about a change of users in the same way as for a client. Returns the change's records.
///
/// # Errors
/// A part of the change is refused.
pub fn alter(
    view: &View<'_>,
    request: &AlterUserScramCredentialsRequest<'_>,
) -> Result<Vec<ClusterRecord<'static>>, Failure> {
    let change = alter_user_scram_credentials(view, request);
    match change.response.results.into_iter().find(|it| it.error_code != 0) {
        Some(refused) => Err(refused.error_message.unwrap_or("refused".into()).into()),
        None => Ok(change.records),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_user_has_the_password_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
        std::fs::write(&file, "pencil\nsecond line\n").unwrap();
        let (config, offline) = (Config::default(), OfflinePartitions::default());
        let mut image = ClusterImage::new(&config);
        let placement = config.placement(1);
        let of = |image: &ClusterImage, name: &str, file: &Path| {
            let (config, offline) = (&config, &offline);
            let view = View {
                config,
                image,
                placement,
                brokers: Brokers::alone(&[]),
                shard: 0,
                offline,
                cluster_id: "",
            };
            let (name, password_file) = (name.to_owned(), Some(file.to_owned()));
            FirstUser { name, mechanism: ScramMechanism::Sha512, password_file }.records(&view)
        };
        let records = of(&image, "admin", &file).unwrap();
        records.iter().for_each(|record| image.apply(record));
        let is = image.scram_credential("admin", ScramMechanism::Sha512).unwrap();
        let salted = ScramMechanism::Sha512.salted_password("pencil", &is.salt, 4_096);
        let mechanism = ScramMechanism::Sha512;
        assert_eq!(*is, ScramCredential::new(mechanism, &is.salt, &salted, 4_096));
        let why = |name: &str, file: &Path| of(&image, name, file).unwrap_err().to_string();
        assert_eq!(why("", &file), "--first-user : Username must not be empty");
        let none = directory.path().join("none");
        assert!(why("bob", &none).starts_with("--first-user bob: could not read"));
    }
}
