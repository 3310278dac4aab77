#!/bin/sh
# A "Run Script" phase of Xcode, before "Copy Bundle Resources": splits each model of "Input Files" into the file of
# "Output Files" in the same place of the list, and keeps the companions in $DEBUG_ARCHIVE_COMPANIONS. Xcode runs it again
# only when one of these files has changed.
set -eu
companions=${DEBUG_ARCHIVE_COMPANIONS:-$SRCROOT/build/companions}
if [ "$SCRIPT_INPUT_FILE_COUNT" -ne "$SCRIPT_OUTPUT_FILE_COUNT" ]; then
    echo "error: $SCRIPT_INPUT_FILE_COUNT input files and $SCRIPT_OUTPUT_FILE_COUNT output files: list one for each model" >&2
    exit 1
fi
mkdir -p "$companions"
at=0
while [ "$at" -lt "$SCRIPT_INPUT_FILE_COUNT" ]; do
    eval "model=\$SCRIPT_INPUT_FILE_$at small=\$SCRIPT_OUTPUT_FILE_$at"
    name=${model##*/}
    mkdir -p "${small%/*}"
    debug-archive split "$model" -o "$small" -c "$companions/${name%.*}.ptdbg" --force
    at=$((at + 1))
done
