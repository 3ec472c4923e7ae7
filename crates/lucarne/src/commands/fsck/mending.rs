//! Sources and destinations of a repair.

use std::sync::Arc;

use anyhow::{Context, Result};
use futures_util::Stream;
use lucarne_ct::{Fingerprint, Roots};
use lucarne_ctread::Source;
use lucarne_log::{
    Cure, Finding, FsckOptions, FsckPosition, OtherCopy, Overlay, Repair, Repaired, Unwritten,
    repair, superseded_anew,
};
use lucarne_storage::{Asset, AssetError, AssetKind, Repairs};
use lucarne_tlog::{Checkpoint, Tile};

use super::files::Breaker;
use super::options;
use super::place::{Place, files_at};
use super::report::Report;
use crate::config::{self, DataPlace};
use crate::roots::{self, Purpose};

/// Sources of correct files, and the place to write them to.
pub(super) struct Mending {
    sources: Vec<OtherCopy>,
    repairs: Arc<dyn Repairs>,
    /// Journal of the log, in a dry run.
    untouched: Option<Arc<dyn Repairs>>,
    /// Roots that must verify the chains of entries from the sources.
    accepted: Arc<Roots>,
}

impl Mending {
    /// Opens the sources and destinations that the options name. In a dry run, `place` is replaced
    /// with an overlay that contains the repairs.
    ///
    /// # Errors
    /// If a source cannot be opened, or nothing can be written to the log.
    pub(super) async fn of(
        place: &mut Place,
        options: &options::Repair,
        report: &Report,
    ) -> Result<Mending> {
        let mut sources = Vec::new();
        for from in &options.from {
            let opened = files_at(from).await;
            let (files, data, place) =
                opened.with_context(|| format!("cannot use --from {from}"))?;
            let files: Arc<dyn Source> = match data {
                // One damaged file in a directory proves nothing about other files.
                Some(DataPlace::Directory(_)) => files,
                _ => Arc::new(Breaker::new(files)),
            };
            sources.push(OtherCopy { place, files });
        }
        let accepted = Arc::new(accepted(place, options, report).await?);
        let (mut repairs, mut untouched) = (place.repairs().await?, None);
        if options.dry_run {
            untouched = Some(repairs.clone());
            let overlay = Arc::new(Overlay::trial(place.files.clone(), repairs.clone()));
            (place.files, repairs) = (overlay.clone(), overlay);
        }
        Ok(Mending {
            sources,
            repairs,
            untouched,
            accepted,
        })
    }

    /// Repairs the tree, starting at `from`.
    pub(super) fn repair(
        &self,
        files: Arc<dyn Source>,
        signed: &Checkpoint,
        from: FsckPosition,
        options: FsckOptions,
    ) -> impl Stream<Item = Result<Repaired, AssetError>> + Send + use<> {
        let log = Repair {
            files,
            repairs: self.repairs.clone(),
            sources: self.sources.clone(),
            signed: signed.clone(),
            accepted: self.accepted.clone(),
            options,
        };
        repair(log, from)
    }

    /// Repairs a superseded partial tile, or returns the finding.
    pub(super) async fn superseded(
        &self,
        files: &dyn Source,
        (tile, size): (Tile, u64),
        finding: Finding,
        report: &Report,
    ) -> Result<Result<Cure, Finding>> {
        match superseded_anew(files, tile, size).await {
            Some(asset) => self.replace(finding, asset, "the wider tile", report).await,
            None => Ok(Err(finding)),
        }
    }

    /// Repairs an issuer that no entry needs.
    pub(super) async fn issuer(
        &self,
        issuer: &Fingerprint,
        finding: Finding,
        report: &Report,
    ) -> Result<Result<Cure, Finding>> {
        for source in &self.sources {
            let read = source.files.read(&finding.path).await;
            if let Ok(Some(der)) = read
                && Fingerprint::of(&der) == *issuer
            {
                let asset = Asset::new(finding.path.as_str(), der, AssetKind::Issuer);
                return self.replace(finding, asset, &source.place, report).await;
            }
        }
        Ok(Err(finding))
    }

    /// Removes damaged rounds of the journal that a published checkpoint of `size` entries covers.
    /// In a dry run, lists these rounds.
    pub(super) async fn rounds(&self, size: u64, report: &mut Report) -> Result<()> {
        if let Some(untouched) = &self.untouched {
            for file in untouched.damaged_rounds(size).await? {
                report.removable(&file);
            }
            return Ok(());
        }
        for removed in self.repairs.remove_damaged_rounds(size).await? {
            report.removed(&removed);
        }
        Ok(())
    }

    /// Replaces a file. Returns its finding if this file cannot be written.
    async fn replace(
        &self,
        finding: Finding,
        asset: Asset,
        from: &str,
        report: &Report,
    ) -> Result<Result<Cure, Finding>> {
        let path = asset.path.clone();
        let from = from.to_owned();
        match self.repairs.replace(asset).await {
            Ok(kept) => Ok(Ok(Cure {
                finding,
                from,
                kept,
            })),
            Err(problem) if problem.is_of_one_file() => {
                report.unwritten(&Unwritten { path, problem });
                Ok(Err(finding))
            }
            Err(problem) => Err(problem.into()),
        }
    }
}

/// Returns the accepted roots of the log, from its configuration and from the options. The repair
/// needs the roots only for files from other copies.
async fn accepted(place: &Place, options: &options::Repair, report: &Report) -> Result<Roots> {
    let mut accepted = Roots::new();
    if options.from.is_empty() {
        return Ok(accepted);
    }
    if let Some((_, log)) = place.configured.clone() {
        let load = move || {
            let mut problems = config::Report::default();
            let roots = roots::load(&log, Purpose::Look, &mut problems);
            (roots, problems)
        };
        let (roots, problems) = tokio::task::spawn_blocking(load).await?;
        problems
            .problem_lines()
            .iter()
            .for_each(|line| report.note(line));
        accepted.merge(&roots);
    }
    for file in &options.roots {
        let named = || format!("--roots {}", file.display());
        let pem = std::fs::read(file).with_context(|| format!("cannot read {}", named()))?;
        let (roots, skipped) = Roots::from_pem(&pem);
        for root in skipped {
            report.note(&format!("{}: {root}", named()));
        }
        accepted.merge(&roots);
    }
    if accepted.is_empty() {
        report.note(
            "no accepted roots are known to verify precertificates and chains from other places: \
             configure the roots with --roots",
        );
    }
    Ok(accepted)
}
