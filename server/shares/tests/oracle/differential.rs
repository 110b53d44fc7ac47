//! Random runs of any length, compared with the running oracle. See `README.md`.

use crate::transcript::Transcript;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The number of seeds for one process of the generator.
const SEEDS_AT_ONCE: u64 = 5;

const ALL_AREAS: &str = "quiet,busy,dead,share-state";

/// The parameters of a run, from environment variables that start with `MUSTER_ORACLE`.
pub struct Plan {
    pub seed: u64,
    oracle: PathBuf,
    duration: Duration,
    areas: Vec<String>,
}

impl Plan {
    /// Reads the parameters.
    ///
    /// # Panics
    /// `MUSTER_ORACLE` is not set to the folder of the oracle.
    pub fn from_environment() -> Self {
        let number = |name| std::env::var(name).ok().map(|value| value.parse().unwrap());
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let areas = std::env::var("MUSTER_ORACLE_AREAS");
        let areas = areas.unwrap_or_else(|_| ALL_AREAS.to_owned());
        Self {
            oracle: std::env::var_os("MUSTER_ORACLE").expect("set MUSTER_ORACLE").into(),
            seed: number("MUSTER_ORACLE_SEED").unwrap_or_else(clock),
            duration: Duration::from_secs(number("MUSTER_ORACLE_SECONDS").unwrap_or(60)),
            areas: areas.split(',').map(str::to_owned).collect(),
        }
    }

    /// Runs seed after seed until the time is up. Transcripts for which `each` returns false stay
    /// in a folder, whose path is printed.
    pub fn run(&self, mut each: impl FnMut(&Transcript) -> bool) {
        let folder = std::env::temp_dir().join(format!("muster-shares-{}", self.seed));
        std::fs::create_dir_all(&folder).unwrap();
        println!("transcripts that differ stay in {}", folder.display());
        let start = Instant::now();
        let mut seed = self.seed;
        while start.elapsed() < self.duration {
            for path in self.generate(&folder, seed..seed + SEEDS_AT_ONCE) {
                if each(&Transcript::read(&path)) {
                    std::fs::remove_file(path).unwrap();
                }
            }
            seed += SEEDS_AT_ONCE;
        }
    }

    fn generate(&self, folder: &Path, seeds: std::ops::Range<u64>) -> Vec<PathBuf> {
        let jobs: Vec<(&String, u64)> =
            seeds.flat_map(|seed| self.areas.iter().map(move |area| (area, seed))).collect();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/generate.py");
        let status = Command::new("python3")
            .arg(script)
            .arg(folder)
            .args(jobs.iter().map(|(area, seed)| format!("{area}:{seed}")))
            .env("MUSTER_ORACLE", &self.oracle)
            .status()
            .unwrap();
        assert!(status.success(), "the generator ended with {status}");
        jobs.iter().map(|(area, seed)| folder.join(format!("{area}-{seed}.jsonl"))).collect()
    }
}
