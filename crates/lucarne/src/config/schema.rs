//! JSON Schema (draft 2020-12) of the configuration files, for editors.

use lucarne_settings::form::{Numbers, Shape};
use lucarne_settings::{AnyKey, Table};
use serde_json::{Map, Value, json};

use super::keys;

/// Pattern of durations.
const DURATION: &str = "^([0-9]+(\\.[0-9]+)?(h|m|s|ms|us|µs|ns))+$";
/// Pattern of sizes.
const SIZE: &str = "^[0-9]+ *([KMGT]iB|kB|MB|GB|B)$";
/// Pattern of dates.
const DATE: &str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$";
/// Pattern of times and dates.
const TIME: &str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ].+)?$";

/// Returns the schema of the server's file.
pub(crate) fn server() -> Value {
    let mut schema = of_file("Configuration of lucarne serve", &keys::top::TABLE);
    let served = ["logs", "witness", "mirror"].map(|key| json!({"required": [key]}));
    schema["anyOf"] = json!(served);
    add_ignored(&mut schema, keys::IGNORED_TOP);
    let witness = &mut schema["properties"]["witness"];
    add_ignored(witness, keys::IGNORED_WITNESS);
    add_ignored(
        &mut schema["properties"]["logs"]["items"],
        keys::IGNORED_LOG,
    );
    schema
}

/// Returns the schema of a signer's file.
pub(crate) fn signer() -> Value {
    of_file("Configuration of lucarne signer", &keys::signer::TABLE)
}

/// Returns the schema of a file with the keys of `table`.
pub(crate) fn of_file(title: &str, table: &Table) -> Value {
    let mut schema = of_map(table);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(title);
    schema
}

fn of_map(table: &Table) -> Value {
    let keys = table.keys();
    let required = keys.iter().map(|key| key.about());
    let required = required.filter(|about| about.default() == "required");
    let properties = keys
        .iter()
        .map(|key| (key.about().name.to_owned(), of_key(*key)));
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": required.map(|about| about.name).collect::<Vec<_>>(),
        "properties": properties.collect::<Map<_, _>>(),
    })
}

fn of_key(key: &dyn AnyKey) -> Value {
    let about = key.about();
    let mut schema = of_shape(key.shape(), &key.words());
    let mut description = about.meaning.to_owned();
    let default = about.default();
    if !["", "–", "below", "see below"].contains(&default.as_str()) {
        description.push_str(&format!("\n\nDefault: {default}"));
    }
    schema["description"] = json!(description);
    schema
}

fn of_shape(shape: Shape, words: &[&str]) -> Value {
    let text = |pattern: &str| json!({"type": "string", "pattern": pattern});
    match shape {
        Shape::Text | Shape::Secret => json!({"type": ["string", "number"]}),
        Shape::Boolean => json!({"type": "boolean"}),
        Shape::Number(min, max) => {
            json!({"type": "integer", "minimum": min, "maximum": max})
        }
        Shape::Duration(numbers) => with_numbers(text(DURATION), numbers),
        Shape::Size(numbers) => with_numbers(text(SIZE), numbers),
        Shape::Date => text(DATE),
        Shape::Time => text(TIME),
        Shape::Word => json!({"enum": words}),
        Shape::Exactly(word) => json!({"const": word}),
        Shape::List(Shape::Map(table)) => json!({"type": "array", "items": of_map(table)}),
        Shape::List(inside) => {
            let inside = of_shape(*inside, words);
            json!({"anyOf": [inside.clone(), {"type": "array", "items": inside}]})
        }
        Shape::Map(table) => of_map(table),
        Shape::Either(shapes) => {
            let shapes = shapes.iter().map(|shape| of_shape(*shape, words));
            json!({"anyOf": shapes.collect::<Vec<_>>()})
        }
    }
}

/// Adds the numbers that are valid without a unit. Zero needs no unit.
fn with_numbers(text: Value, numbers: Numbers) -> Value {
    let number = match numbers {
        Numbers::Refused => json!({"const": 0}),
        Numbers::Former(_) => json!({"type": "integer", "minimum": 0, "deprecated": true}),
        Numbers::Accepted(_) => json!({"type": "integer", "minimum": 0}),
    };
    json!({"anyOf": [text, number]})
}

/// Adds keys of other log software that cause a warning.
fn add_ignored(schema: &mut Value, keys: keys::Advised) {
    for (key, why) in keys {
        schema["properties"][*key] = json!({"deprecated": true, "description": why});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_in_the_schema_with_its_form() {
        let schema = server();
        let top = &schema["properties"];
        for name in keys::top::TABLE.names() {
            let meaning = top[name]["description"].as_str().unwrap();
            assert!(!meaning.is_empty(), "{name}");
        }
        assert_eq!(schema["required"], json!(["listen", "checkpoints"]));
        assert_eq!(schema["anyOf"][0], json!({"required": ["logs"]}));
        assert_eq!(top["verification"]["enum"], json!(["fast", "general"]));
        let http = &top["http"];
        assert_eq!(http["additionalProperties"], json!(false));
        assert_eq!(
            http["properties"]["headertimeout"]["anyOf"][1]["deprecated"],
            json!(true)
        );
        let log = &top["logs"]["items"];
        assert!(log["properties"]["httphost"]["deprecated"].is_boolean());
        assert_eq!(
            log["properties"]["maxchain"]["minimum"],
            json!(2),
            "{log:#}"
        );
        assert_eq!(
            log["properties"].as_object().unwrap().len(),
            keys::LOG.names().len() + keys::IGNORED_LOG.len()
        );
        assert!(top["defaults"]["properties"]["secret"].is_null());
        let read_limits = &top["read_limits"]["anyOf"];
        assert_eq!(read_limits[0]["const"], json!("off"));
        assert!(signer()["properties"]["logs"]["items"]["properties"]["pin"].is_object());
    }
}
