//! Integers of definitions in the two formats that an API server knows, so that it says nothing about others and refuses what no field holds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinitionVersion, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// Formats of Rust's integers, what Kubernetes calls the smallest that holds them, and the greatest of them where that is less.
const FORMATS: [(&str, &str, Option<u32>); 4] = [
    ("uint8", "int32", Some(u8::MAX as u32)),
    ("uint16", "int32", Some(u16::MAX as u32)),
    ("uint32", "int64", Some(u32::MAX)),
    ("uint64", "int64", None),
];

/// Says it of every field of a version.
pub(crate) fn as_kubernetes_knows_them(version: &mut CustomResourceDefinitionVersion) {
    if let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
        in_schema(schema);
    }
}

fn in_schema(schema: &mut JSONSchemaProps) {
    let known = FORMATS.iter().find(|(format, ..)| schema.format.as_deref() == Some(*format));
    if let Some((_, format, greatest)) = known {
        schema.format = Some((*format).to_owned());
        schema.maximum = schema.maximum.or(greatest.map(f64::from));
    }
    schema.properties.iter_mut().flatten().for_each(|(_, field)| in_schema(field));
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => in_schema(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(in_schema),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        in_schema(values);
    }
}

#[cfg(test)]
mod tests {
    use crate::definitions;

    #[test]
    fn api_servers_know_every_format_and_the_bounds_are_those_of_the_fields() {
        for (file, definition) in definitions() {
            let text = serde_json::to_string(&definition).unwrap();
            assert!(!text.contains(r#""format":"uint"#), "{file} has a format that no API server knows");
            assert!(text.contains(r#""format":"int64","maximum":4294967295"#), "{file}: {text}");
        }
    }
}
