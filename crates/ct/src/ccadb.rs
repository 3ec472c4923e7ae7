//! Roots from the CSV reports of the Common CA Database (CCADB).

use crate::roots::{RootError, Roots, SkippedRoot};

/// Selection of the records of a report that become roots, as in Sunlight's `ccadbroots`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CcadbProgramme {
    /// Roots that at least one root programme includes or once included. Certificates of removed
    /// roots are still worth logging, and a log must not drop roots automatically.
    Trusted,
    /// Every root in the report, including applicants for inclusion: for test logs.
    Testing,
}

/// The reasons why a report cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum CcadbError {
    /// The report has no column with certificates.
    #[error("the report has no column {0}: it is not a CCADB report with certificates in PEM")]
    NoColumn(&'static str),
    /// The report is not CSV.
    #[error("the report is not CSV: {0}")]
    Csv(#[from] csv::Error),
}

const CERTIFICATE: &[&str] = &[
    "X.509 Certificate (PEM)",
    "PEM Info",
    "PEM",
    "Certificate PEM",
];
const STATUSES: &[&str] = &[
    "Apple Status",
    "Google Chrome Status",
    "Chrome Status",
    "Microsoft Status",
    "Mozilla Status",
];
const RECORD_TYPE: &[&str] = &["Certificate Record Type"];

/// The statuses of a root that a programme includes or once included.
const INCLUDED: &[&str] = &[
    "Included",
    "Change Requested",
    "Trusted",
    "NotBefore",
    "Disabled",
    "Removed",
];

impl CcadbProgramme {
    /// Returns the roots of a CCADB report in CSV, and the unusable records.
    ///
    /// Reports name their columns in the first record. These columns are read:
    ///
    /// | column | meaning |
    /// |---|---|
    /// | `X.509 Certificate (PEM)`, `PEM Info`, `PEM` or `Certificate PEM` | the certificate, sometimes in single quotes; required |
    /// | `Apple Status`, `Google Chrome Status` (or `Chrome Status`), `Microsoft Status`, `Mozilla Status` | `Included`, `Change Requested`, `Removed`, …; [`Trusted`](Self::Trusted) requires at least one of the columns |
    /// | `Certificate Record Type` | `Root Certificate` or `Intermediate Certificate`; if present, intermediates are ignored |
    ///
    /// Titles are compared without regard to case; other columns are ignored.
    ///
    /// # Errors
    /// If the report is not CSV or lacks a required column.
    pub fn roots(self, report: &[u8]) -> Result<(Roots, Vec<SkippedRoot>), CcadbError> {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(report);
        let columns = Columns::find(reader.byte_headers()?, self)?;
        let (mut roots, mut skipped) = (Roots::new(), Vec::new());
        for (index, record) in reader.byte_records().enumerate() {
            let record = record?;
            if !columns.wanted(&record) {
                continue;
            }
            let line = record.position().map_or(0, |place| place.line() as usize);
            let pem = record.get(columns.certificate).unwrap_or_default();
            if let Err(reason) = add_from_field(&mut roots, pem) {
                skipped.push(SkippedRoot {
                    index,
                    line,
                    reason,
                });
            }
        }
        Ok((roots, skipped))
    }
}

fn add_from_field(roots: &mut Roots, pem: &[u8]) -> Result<(), RootError> {
    let pem: Vec<u8> = pem.iter().copied().filter(|byte| *byte != b'\'').collect();
    let (found, skipped) = Roots::from_pem(&pem);
    match (found.is_empty(), skipped.into_iter().next()) {
        (true, Some(skipped)) => Err(skipped.reason),
        (true, None) => Err(RootError::NoPem),
        (false, _) => {
            roots.merge(&found);
            Ok(())
        }
    }
}

/// The positions of the columns.
struct Columns {
    certificate: usize,
    /// Status columns; empty if every record is selected.
    statuses: Vec<usize>,
    record_type: Option<usize>,
}

impl Columns {
    fn find(header: &csv::ByteRecord, programme: CcadbProgramme) -> Result<Self, CcadbError> {
        let find = |names: &[&str]| {
            let named = |title: &[u8]| {
                names
                    .iter()
                    .any(|name| title.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
            };
            let places = header.iter().enumerate();
            places
                .filter_map(|(place, title)| named(without_bom(title)).then_some(place))
                .collect::<Vec<_>>()
        };
        let certificate = *find(CERTIFICATE)
            .first()
            .ok_or(CcadbError::NoColumn(CERTIFICATE[0]))?;
        let statuses = match programme {
            CcadbProgramme::Testing => Vec::new(),
            CcadbProgramme::Trusted => match find(STATUSES) {
                none if none.is_empty() => return Err(CcadbError::NoColumn("Mozilla Status")),
                statuses => statuses,
            },
        };
        Ok(Self {
            certificate,
            statuses,
            record_type: find(RECORD_TYPE).first().copied(),
        })
    }

    fn wanted(&self, record: &csv::ByteRecord) -> bool {
        let is = |place: usize, values: &[&str]| {
            let field = record.get(place).unwrap_or_default().trim_ascii();
            values
                .iter()
                .any(|value| field.eq_ignore_ascii_case(value.as_bytes()))
        };
        let root = self
            .record_type
            .is_none_or(|place| is(place, &["Root Certificate"]));
        let status =
            self.statuses.is_empty() || self.statuses.iter().any(|place| is(*place, INCLUDED));
        root && status
    }
}

fn without_bom(title: &[u8]) -> &[u8] {
    title.strip_prefix("\u{feff}".as_bytes()).unwrap_or(title)
}
