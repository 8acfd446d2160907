#include "vectors.hpp"
