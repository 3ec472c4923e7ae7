//! Directory of the demo: keys, authorities, configuration.
//!
//! Existing files are kept. In a new half year, a log is added to the configuration.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use lucarne_scenarios::ct::Roots;

use super::authorities::Authorities;
use super::cosigners;
use super::half::Half;
use crate::commands::keygen;
use crate::config::Listen;

/// File name of the configuration.
pub(super) const CONFIGURATION: &str = "lucarne.yaml";

/// Directory of the demo.
pub(super) struct Home {
    directory: PathBuf,
    half: Half,
    pub(super) authorities: Authorities,
}

impl Home {
    /// Opens the directory, and creates all missing files except the configuration.
    pub(super) fn open(directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot create directory {}", directory.display()))?;
        let directory = directory.canonicalize()?;
        let authorities = Authorities::open(&directory.join("ca"))?;
        let home = Home {
            half: Half::current(),
            authorities,
            directory,
        };
        let load = Roots::open_or_create(&home.load_authorities())?;
        let roots = home.authorities.root.certificate_pem() + &load.roots_pem();
        home.write("roots.pem", &roots)?;
        home.seed()?;
        Ok(home)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the directory of the authorities for `lucarne load`, whose roots the log accepts.
    pub(super) fn load_authorities(&self) -> PathBuf {
        self.directory.join("load-ca")
    }

    /// Returns the path of the configuration file.
    pub(super) fn configuration(&self) -> PathBuf {
        self.directory.join(CONFIGURATION)
    }

    /// Returns the short name of the current log.
    pub(super) fn log_name(&self) -> String {
        format!("demo{}", self.half.name())
    }

    /// Returns the name of the current half year.
    pub(super) fn half(&self) -> String {
        self.half.name()
    }

    /// Returns the contents of a private file, which is created with `text` if it does not exist.
    pub(super) fn secret(&self, name: &str, text: &str) -> Result<String> {
        let file = self.directory.join(name);
        let context = || format!("cannot read or create {}", file.display());
        let mut options = std::fs::OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        match options.open(&file) {
            Ok(mut writing) => {
                writing.write_all(text.as_bytes()).with_context(context)?;
                Ok(text.to_owned())
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                std::fs::read_to_string(&file).with_context(context)
            }
            Err(error) => Err(error).with_context(context),
        }
    }

    /// Writes a file into the directory.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let file = self.directory.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }

    fn seed(&self) -> Result<()> {
        let seed = self
            .directory
            .join(format!("{}.seed.bin", self.half.name()));
        if !seed.exists() {
            keygen::make(&seed)?;
        }
        Ok(())
    }

    /// Adds the current log to the configuration, and creates the configuration if it does not
    /// exist. A witness and a mirror know each log.
    pub(super) fn configure(&self, listen: Option<&Listen>, witness: bool) -> Result<()> {
        let listen = listen.map_or_else(|| super::LISTEN.to_owned(), super::reachable);
        let file = self.configuration();
        let text = std::fs::read_to_string(&file);
        let mut text = text.unwrap_or_else(|_| {
            let sections = if witness {
                cosigners::sections(&listen)
            } else {
                String::new()
            };
            self.head(&listen, &sections)
        });
        ensure!(
            witness == cosigners::are_in(&text),
            "{} is {} `--witness`: choose another --dir",
            file.display(),
            if witness { "of a demo without" } else { "of" }
        );
        let name = format!("- shortname: {}\n", self.log_name());
        if text.contains(&name) {
            return Ok(());
        }
        let half = self.half.name();
        let mut place = format!("    localdirectory: data/{half}\n    cache: cache/{half}\n");
        if witness {
            place.push_str(cosigners::POLICY);
            let seed = self.directory.join(format!("{half}.seed.bin"));
            text = cosigners::add_log(&self.directory, &text, &format!("{listen}/{half}"), &seed)?;
        }
        text.push_str(&self.log(&listen, &place));
        self.write(CONFIGURATION, &text)?;
        Ok(())
    }

    fn head(&self, listen: &str, sections: &str) -> String {
        format!(
            "# Written by `lucarne demo`, and a configuration like any other:\n\
             #   lucarne check -c lucarne.yaml\n\
             #   lucarne serve -c lucarne.yaml\n\
             # Every key is explained in docs/reference/configuration.md.\n\
             \n\
             listen:\n  - {listen}\n\
             \n\
             # Holds the last signed checkpoint of each log. Never roll it back.\n\
             checkpoints: checkpoints.db\n\
             \n\
             {sections}\
             logs:\n"
        )
    }

    /// Returns the section of the current log, with the lines that define its storage.
    pub(super) fn log(&self, listen: &str, place: &str) -> String {
        let half = self.half.name();
        let (start, limit) = self.half.window();
        format!(
            "  - shortname: {name}\n    \
             description: Lucarne demo log {half}\n    \
             submissionprefix: http://{listen}/{half}/\n    \
             monitoringprefix: http://{listen}/{half}/\n    \
             secret: {half}.seed.bin\n\
             {place}    \
             roots: roots.pem\n    \
             notafterstart: {start}\n    \
             notafterlimit: {limit}\n",
            name = self.log_name()
        )
    }
}
