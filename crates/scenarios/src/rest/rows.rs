//! Rows of values from CSV and JSON files.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lucarne_load::Part;
use lucarne_settings::read_text;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::random::Random;

/// A file with rows of values, and the selection of a row for an iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataOptions {
    /// CSV with a header line, a JSON array of objects (`.json`), or one object per line
    /// (`.jsonl`).
    pub file: String,
    /// Order of the rows.
    pub order: RowOrder,
    /// Users that share the order.
    pub scope: RowScope,
}

/// Orders of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowOrder {
    /// In the order of the file. The first row follows the last row.
    #[default]
    Turn,
    /// Each row is chosen at random.
    Random,
}

/// Sharing of the order among users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowScope {
    /// All users share the order: each iteration uses the next row, regardless of the user.
    #[default]
    Shared,
    /// Each user goes through all rows.
    User,
    /// Each user keeps one row for the whole run.
    Fixed,
}

/// Deserializes the name of a file, or a map.
impl<'de> Deserialize<'de> for DataOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Keys {
            file: String,
            #[serde(default)]
            order: RowOrder,
            #[serde(default)]
            scope: RowScope,
        }
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = DataOptions;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a file, or a map with `file`")
            }

            fn visit_str<E: de::Error>(self, file: &str) -> Result<Self::Value, E> {
                Ok(DataOptions {
                    file: file.to_owned(),
                    ..DataOptions::default()
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let keys = Keys::deserialize(MapAccessDeserializer::new(map))?;
                let Keys { file, order, scope } = keys;
                Ok(DataOptions { file, order, scope })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Reasons why the rows of a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum RowsError {
    #[error("the file `{file}` cannot be read: {source}")]
    Unreadable { file: String, source: io::Error },
    #[error("the file `{file}`: {source}")]
    Format { file: String, source: FormatError },
    #[error("the file `{file}` has no rows")]
    Empty { file: String },
}

/// Reasons why a text is not a table.
#[derive(Debug, thiserror::Error)]
pub(super) enum FormatError {
    #[error("there is no header line")]
    NoHeader,
    #[error("the header line has the column `{0}` twice: rename one column")]
    Repeated(String),
    #[error("line {line}: expected {expected} values, found {found}")]
    Values {
        line: usize,
        expected: usize,
        found: usize,
    },
    #[error("line {line}: a quote is not closed")]
    OpenQuote { line: usize },
    #[error("expected a JSON array of objects: {0}")]
    Array(#[source] serde_json::Error),
    #[error("line {line}: expected a JSON object: {source}")]
    Line {
        line: usize,
        source: serde_json::Error,
    },
    #[error("row {row}: expected a JSON object")]
    NotObject { row: usize },
    #[error("row {row} has no `{column}`")]
    NoColumn { row: usize, column: String },
}

/// Rows of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    /// Reads a file, whose extension determines the format.
    pub(super) fn read(path: &str) -> Result<Self, RowsError> {
        let file = path.to_owned();
        let content = match read_text(path.as_ref()) {
            Ok(content) => content,
            Err(source) => return Err(RowsError::Unreadable { file, source }),
        };
        let extension = Path::new(path).extension().unwrap_or_default();
        let table = match extension.to_string_lossy().as_ref() {
            "json" => Self::json(&content),
            "jsonl" | "ndjson" => Self::json_lines(&content),
            _ => Self::csv(&content),
        };
        match table {
            Ok(table) if table.rows.is_empty() => Err(RowsError::Empty { file }),
            Ok(table) => Ok(table),
            Err(source) => Err(RowsError::Format { file, source }),
        }
    }

    fn csv(content: &str) -> Result<Self, FormatError> {
        let mut records = csv_records(content)?;
        if records.is_empty() {
            return Err(FormatError::NoHeader);
        }
        let (_, columns) = records.remove(0);
        for (index, column) in columns.iter().enumerate() {
            if columns[..index].contains(column) {
                return Err(FormatError::Repeated(column.clone()));
            }
        }
        for (line, record) in &records {
            if record.len() != columns.len() {
                return Err(FormatError::Values {
                    line: *line,
                    expected: columns.len(),
                    found: record.len(),
                });
            }
        }
        let rows = records.into_iter().map(|(_, record)| record).collect();
        Ok(Self { columns, rows })
    }

    fn json(content: &str) -> Result<Self, FormatError> {
        Self::of_objects(serde_json::from_str(content).map_err(FormatError::Array)?)
    }

    fn json_lines(content: &str) -> Result<Self, FormatError> {
        let lines = content.lines().enumerate();
        let lines = lines.filter(|(_, line)| !line.trim().is_empty());
        let rows = lines.map(|(number, line)| {
            serde_json::from_str(line).map_err(|source| FormatError::Line {
                line: number + 1,
                source,
            })
        });
        Self::of_objects(rows.collect::<Result<_, _>>()?)
    }

    fn of_objects(rows: Vec<Value>) -> Result<Self, FormatError> {
        let mut columns: Vec<String> = Vec::new();
        let mut table = Vec::with_capacity(rows.len());
        for (number, row) in rows.into_iter().enumerate() {
            let Value::Object(row) = row else {
                return Err(FormatError::NotObject { row: number + 1 });
            };
            if number == 0 {
                columns = row.keys().cloned().collect();
            }
            let value = |column: &String| match row.get(column) {
                Some(Value::String(text)) => Ok(text.clone()),
                Some(other) => Ok(other.to_string()),
                None => Err(FormatError::NoColumn {
                    row: number + 1,
                    column: column.clone(),
                }),
            };
            table.push(columns.iter().map(value).collect::<Result<_, _>>()?);
        }
        let rows = table;
        Ok(Self { columns, rows })
    }
}

/// Parses the records of a CSV file (RFC 4180). Returns each record with its line number.
fn csv_records(content: &str) -> Result<Vec<(usize, Vec<String>)>, FormatError> {
    let mut records = Vec::new();
    let (mut record, mut field) = (Vec::new(), String::new());
    let (mut line, mut begun, mut quoted) = (1, 1, false);
    let mut letters = content.chars().peekable();
    while let Some(letter) = letters.next() {
        line += usize::from(letter == '\n');
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => field.extend(letters.next()),
            '"' if quoted => quoted = false,
            '"' if field.is_empty() => quoted = true,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\r' if !quoted && letters.peek() == Some(&'\n') => {}
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                let whole = std::mem::take(&mut record);
                // An empty line is not a record.
                if whole != [""] {
                    records.push((begun, whole));
                }
                begun = line;
            }
            letter => field.push(letter),
        }
    }
    if quoted {
        return Err(FormatError::OpenQuote { line: begun });
    }
    if !field.is_empty() || !record.is_empty() {
        record.push(field);
        records.push((begun, record));
    }
    Ok(records)
}

/// Rows of one file and their order of use.
#[derive(Debug)]
pub(super) struct Rows {
    rows: Vec<Vec<String>>,
    /// Columns that templates use, with their slots.
    slots: Vec<(usize, usize)>,
    order: RowOrder,
    scope: RowScope,
    next: AtomicU64,
}

impl Rows {
    pub(super) fn new(table: Table, slots: Vec<(usize, usize)>, options: &DataOptions) -> Self {
        Self {
            rows: table.rows,
            slots,
            order: options.order,
            scope: options.scope,
            next: AtomicU64::new(0),
        }
    }

    /// Returns the initial position of a user.
    pub(super) fn place(&self, user: u64, random: &mut Random) -> u64 {
        match (self.scope, self.order) {
            (RowScope::Fixed, RowOrder::Turn) => user,
            (RowScope::Fixed, RowOrder::Random) => random.next(),
            _ => 0,
        }
    }

    /// Returns the values of an iteration's row with their slots; `place` is the user's position.
    pub(super) fn take<'r>(
        &'r self,
        place: &mut u64,
        random: &mut Random,
        part: Part,
    ) -> impl Iterator<Item = (usize, &'r str)> + use<'r> {
        let number = match (self.scope, self.order) {
            (RowScope::Fixed, _) => *place,
            (RowScope::Shared, RowOrder::Turn) => part.number(self.next.fetch_add(1, Relaxed)),
            (RowScope::User, RowOrder::Turn) => {
                *place += 1;
                *place - 1
            }
            (_, RowOrder::Random) => random.next(),
        };
        let row = &self.rows[(number % self.rows.len() as u64) as usize];
        let values = self.slots.iter();
        values.map(|(column, slot)| (*slot, row[*column].as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_quotes_and_line_breaks() {
        let table =
            Table::csv("name,\"full name\"\r\na,\"A, \"\"the\"\"\nfirst\"\n\nb,\n").unwrap();
        assert_eq!(table.columns, ["name", "full name"]);
        assert_eq!(table.rows, [["a", "A, \"the\"\nfirst"], ["b", ""]]);
        let wrong = |content: &str| Table::csv(content).unwrap_err().to_string();
        assert_eq!(wrong("a,b\n1,2\n3\n"), "line 3: expected 2 values, found 1");
        assert_eq!(wrong("a\n\"1\n"), "line 2: a quote is not closed");
    }

    #[test]
    fn json_has_objects_of_one_kind() {
        let expected = Table {
            columns: vec!["id".into(), "tags".into()],
            rows: vec![
                vec!["1".into(), "[\"x\"]".into()],
                vec!["two".into(), "null".into()],
            ],
        };
        let array = r#"[{"id": 1, "tags": ["x"]}, {"tags": null, "id": "two"}]"#;
        assert_eq!(Table::json(array).unwrap(), expected);
        let lines = "{\"id\": 1, \"tags\": [\"x\"]}\n\n{\"tags\": null, \"id\": \"two\"}\n";
        assert_eq!(Table::json_lines(lines).unwrap(), expected);
        let wrong = |content: &str| Table::json(content).unwrap_err();
        assert!(matches!(wrong("[1]"), FormatError::NotObject { row: 1 }));
        assert_eq!(wrong(r#"[{"id": 1}, {}]"#).to_string(), "row 2 has no `id`");
    }

    #[test]
    fn errors_name_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.csv");
        let path = path.to_str().unwrap();
        let missing = Table::read(path).unwrap_err();
        assert!(matches!(missing, RowsError::Unreadable { .. }), "{missing}");
        std::fs::write(path, "a,b\n").unwrap();
        let empty = Table::read(path).unwrap_err();
        assert_eq!(empty.to_string(), format!("the file `{path}` has no rows"));
        std::fs::write(path, "").unwrap();
        assert_eq!(
            Table::read(path).unwrap_err().to_string(),
            format!("the file `{path}`: there is no header line")
        );
        std::fs::write(path, "name,id,name\na,1,b\n").unwrap();
        assert_eq!(
            Table::read(path).unwrap_err().to_string(),
            format!(
                "the file `{path}`: the header line has the column `name` twice: rename one column"
            )
        );
    }

    /// Returns the rows that two users take in turn.
    fn taken(order: RowOrder, scope: RowScope) -> Vec<String> {
        taken_by(Part::WHOLE, order, scope)
    }

    fn taken_by(part: Part, order: RowOrder, scope: RowScope) -> Vec<String> {
        let table = Table::csv("n\na\nb\nc\n").unwrap();
        let options = DataOptions {
            order,
            scope,
            ..DataOptions::default()
        };
        let rows = Rows::new(table, vec![(0, 5)], &options);
        let mut random = Random::new(1, 1);
        let mut places = [0, 1].map(|user| rows.place(user, &mut random));
        let mut taken = Vec::new();
        for turn in 0..8 {
            let mut row = rows.take(&mut places[turn % 2], &mut random, part);
            let (slot, value) = row.next().unwrap();
            assert_eq!(slot, 5);
            taken.push(value.to_owned());
        }
        taken
    }

    #[test]
    fn rows_are_taken_as_it_is_said() {
        let turn = |scope| taken(RowOrder::Turn, scope).concat();
        assert_eq!(turn(RowScope::Shared), "abcabcab");
        assert_eq!(turn(RowScope::User), "aabbccaa");
        assert_eq!(turn(RowScope::Fixed), "abababab");
        let of_part =
            |part: &str| taken_by(part.parse().unwrap(), RowOrder::Turn, RowScope::Shared);
        assert_eq!(of_part("1/2").concat(), "acbacbac");
        assert_eq!(of_part("2/2").concat(), "bacbacba");
        let random = taken(RowOrder::Random, RowScope::Shared);
        assert!(
            ["a", "b", "c"]
                .iter()
                .all(|row| random.contains(&(*row).to_owned())),
            "{random:?}"
        );
        let fixed = taken(RowOrder::Random, RowScope::Fixed);
        assert!(
            fixed
                .iter()
                .skip(2)
                .zip(&fixed)
                .all(|(one, two)| one == two),
            "{fixed:?}"
        );
    }
}
